"""Shared by examples with several processes: a group, and checkpoints."""

import os
import signal

import torch
import torch.distributed as dist

RANK, WORLD = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
RESTARTS = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))


def join():
    """Makes the group of all processes of `torchrun`, or of this one alone."""
    if "RANK" in os.environ:
        address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        hosts = RANK == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
        # torchrun keeps its store when it restarts: without a prefix, processes may
        # find the addresses of those that are gone.
        store = dist.TCPStore(*address, WORLD, is_master=hosts)
        store = dist.PrefixStore(f"attempt {RESTARTS}", store)
    else:
        store = dist.HashStore()
    dist.init_process_group("gloo", store=store, rank=RANK, world_size=WORLD)


def leave():
    """Ends the group when all are done.

    An interpreter that ends while gloo's thread still holds tensors of the last message
    is aborted; nobody does so before everybody has come here.
    """
    dist.barrier()
    dist.destroy_process_group()


def save(file, model, optimizer, loader):
    """One file: the model, and of every process where its loader and dropout are."""
    processes = [None] * WORLD
    mine = {"loader": loader.state_dict(), "random": torch.get_rng_state()}
    dist.all_gather_object(processes, mine)
    if RANK == 0:
        both = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save({**both, "processes": processes}, f"{file}.new")
        os.replace(f"{file}.new", file)  # all of it, or nothing


def load(file, model, optimizer, loader):
    """Goes on where `save` was called last, if it was."""
    if not os.path.exists(file):
        return
    saved = torch.load(file, weights_only=True)
    mine = saved["processes"][RANK]
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    loader.load_state_dict(mine["loader"])
    torch.set_rng_state(mine["random"])


def die_once():
    """Kills the last process, unless that has happened."""
    if RANK == WORLD - 1 and RESTARTS == 0:
        os.kill(os.getpid(), signal.SIGKILL)
