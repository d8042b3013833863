"""Trainer ranks in processes of their own, over gloo."""

import multiprocessing
import os
import socket
import traceback


def _run(function, rank, world, port, arguments, queue):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank),
                      WORLD_SIZE=str(world), OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
    try:
        import torch
        import torch.distributed as dist
        torch.set_num_threads(1)
        dist.init_process_group("gloo", rank=rank, world_size=world)
        function(rank, world, *arguments)
        dist.barrier()
        dist.destroy_process_group()
        queue.put((rank, None))
    except BaseException:
        queue.put((rank, traceback.format_exc()))
        queue.close()
        queue.join_thread()
        os._exit(1)  # the others wait in a collective


def run(function, world, *arguments, timeout=240):
    """Runs function(rank, world, *arguments) in `world` processes; raises what the first one did."""
    context = multiprocessing.get_context("spawn")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    queue = context.Queue()
    children = [context.Process(target=_run, args=(function, r, world, port, arguments, queue))
                for r in range(world)]
    for child in children:
        child.start()
    failed = None
    try:
        for _ in children:
            rank, error = queue.get(timeout=timeout)
            if error is not None:
                failed = f"rank {rank}:\n{error}"
                break
    finally:
        for child in children:
            if failed is not None:
                child.terminate()
            child.join(30)
    if failed is not None:
        raise AssertionError(failed)
