"""The entry of `kvplan` and of `python -m kvplan`; an interrupt ends quietly while it is imported, too."""

import gc
import sys


def main() -> None:
    """Run the command line and exit with its code."""
    # A start makes objects that all stay: the collector need not look through them at every 700th, nor at the end.
    gc.set_threshold(50_000)
    try:
        from kvplan.cli import run  # noqa: PLC0415  # a tenth of a second in which Ctrl-C may come

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    gc.freeze()
    sys.exit(code)


if __name__ == "__main__":
    main()
