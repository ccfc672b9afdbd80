"""What torchrun starts in test_ranks: one rank of a rehearsal, with a fault or another pool on rank 1.

python -m torch.distributed.run --nproc-per-node 2 rank_driver.py FOLDER die|fewer|refused
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from kvplan.errors import KvplanError
from kvplan.verify.factory import InterpreterFactory
from kvplan.verify.run import verify


@dataclass(frozen=True)
class DyingFactory(InterpreterFactory):
    """The interpreter, whose process is killed when it is to fill the pool."""

    def open(self):
        from kvplan.verify.device import Fill

        card = super().open()
        launch = card.launch

        def dying(work):
            if isinstance(work, Fill):
                os.kill(os.getpid(), signal.SIGKILL)
            return launch(work)

        card.launch = dying
        return card


def main(folder, case):
    rank = int(os.environ["RANK"])
    args = {"tensor_parallel_size": 2}
    if case == "fewer" and rank == 1:
        args["num_gpu_blocks_override"] = 9
    if case == "refused" and rank == 1:
        args["max_num_seqs"], args["max_num_batched_tokens"] = 64, 8  # fewer tokens than requests: the engine refuses
    factory = DyingFactory() if case == "die" and rank == 1 else InterpreterFactory()
    (Path(folder) / f"parent{rank}").write_text(str(os.getpid()))
    try:
        found = verify(factory=factory, concurrency=1, **args)
    except KvplanError as error:
        sys.stderr.write(f"rank {rank}: {error.message}\n")
        return error.exit_code
    (Path(folder) / f"blocks{rank}").write_text(" ".join(str(result.blocks) for result in found.results))
    return 0 if found.ok else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
