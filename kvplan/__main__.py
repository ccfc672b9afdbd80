"""`python -m kvplan`, which torchrun can start."""

from kvplan.cli import main

if __name__ == "__main__":
    main()
