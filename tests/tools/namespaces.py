"""Batches of a graph in parts between network namespaces, with a delay on the way.

    PYTHONPATH=.:adapters python tests/tools/namespaces.py --size 2 --delay 1

Needs Linux, root and the command `ip`. Every process of `torchrun` has a namespace of
its own: as far as the network goes a machine, with the address 10.77.0.N and a tun
device. This script carries the packets between them, each `--delay` ms after it was
sent, which needs no netem of the kernel. Every batch is compared with that of the whole
graph, bit for bit; then batches are timed. Nothing is left behind.
"""

import argparse
import fcntl
import os
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from queue import SimpleQueue

import numpy as np
import torch
import torch.distributed as dist

from gttf_sampler import CompactAdj
from gttf_sampler.distributed import PartitionedGraph, partition
from gttf_sampler.rooted import RootedSampler

TUNSETIFF, TUN_WITHOUT_HEADER = 0x400454CA, 0x1001
MTU, NETWORK, PORT = 60_000, "10.77.0", 29_400
FANOUTS, BATCH = [15, 10], 1024


class Network:
    """Namespaces that reach each other by way of this process."""

    def __init__(self, size, delay):
        self.delay, self.names, self.tuns = delay, [], []
        self.queue = SimpleQueue()
        for number in range(size):
            name = f"gttf-{os.getpid()}-{number}"
            ip("netns", "add", name)
            self.names.append(name)
            tun = os.open("/dev/net/tun", os.O_RDWR)
            about = struct.pack("16sH", f"gttf{number}".encode(), TUN_WITHOUT_HEADER)
            fcntl.ioctl(tun, TUNSETIFF, about)
            self.tuns.append(tun)
            ip("link", "set", f"gttf{number}", "netns", name)
            inside = "-n", name
            address = f"{NETWORK}.{number + 1}/24"
            ip(*inside, "addr", "add", address, "dev", f"gttf{number}")
            ip(*inside, "link", "set", f"gttf{number}", "mtu", str(MTU), "up")
            ip(*inside, "link", "set", "lo", "up")
            threading.Thread(target=self._read, args=(tun,), daemon=True).start()
        threading.Thread(target=self._write, daemon=True).start()

    def _read(self, tun):
        """Takes packets of one namespace, until that is gone."""
        while packet := _packet(tun):
            if packet[0] >> 4 == 4 and packet[19] - 1 < len(self.tuns):  # IPv4, a peer
                due = time.monotonic() + self.delay
                self.queue.put((due, self.tuns[packet[19] - 1], packet))

    def _write(self):
        """Hands them on when they are due."""
        while True:
            due, tun, packet = self.queue.get()
            time.sleep(max(0.0, due - time.monotonic()))
            os.write(tun, packet)

    def start(self, number, *words):
        """A command inside a namespace."""
        inside = "ip", "netns", "exec", self.names[number]
        own = {"GLOO_SOCKET_IFNAME": f"gttf{number}", "OMP_NUM_THREADS": "1"}
        return subprocess.Popen([*inside, *words], env={**os.environ, **own})

    def close(self):
        for name in self.names:
            ip("netns", "del", name)


def _packet(tun):
    """The next packet; nothing if there is no such device any more."""
    try:
        return os.read(tun, 1 << 16)
    except OSError:
        return b""


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def work(folder, batches):
    """The work of a process: compares, then counts and measures."""
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    whole = RootedSampler(CompactAdj.open(f"{folder}/whole", verify=False), FANOUTS)
    x = torch.from_numpy(np.load(f"{folder}/x.npy", mmap_mode="c"))
    with PartitionedGraph.open(f"{folder}/cut") as graph:
        parts, values = RootedSampler(graph.adj, FANOUTS), graph.features["", "x"]
        own, generator = graph.own_nodes(), torch.Generator().manual_seed(rank)
        seeds = own[torch.randint(len(own), (batches, BATCH), generator=generator)]

        def draw(sampler, number):
            return sampler.sample({"": seeds[number]}, {}, number)

        for number in range(batches):
            far, near = draw(parts, number), draw(whole, number)
            for name in ("node", "row", "col", "edge"):
                assert getattr(far, name).equal(getattr(near, name)), name
            assert values.rows(far.node).equal(x[near.node])
        dist.barrier()
        before, start = graph.exchange.traffic, time.perf_counter()
        for number in range(batches):
            values.rows(draw(parts, number).node)
        seconds, after = time.perf_counter() - start, graph.exchange.traffic
        messages, sent, received = (b - a for a, b in zip(before, after, strict=True))
        moved = (sent + received) / batches / 1e6
        print(
            f"rank {rank}: {batches} batches equal; {seconds / batches * 1e3:.1f} ms, "
            f"{messages / batches:g} messages, {moved:.1f} MB each",
            flush=True,
        )
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description="A graph in parts across namespaces.")
    parser.add_argument("--size", type=int, default=2, help="how many namespaces")
    parser.add_argument("--delay", type=float, default=1.0, help="ms, one way")
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--work", help="the directory to work in, for processes")
    args = parser.parse_args()
    if args.work:
        return work(args.work, args.batches)
    generator = torch.Generator().manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        ends = torch.randint(args.nodes, (2, 20 * args.nodes), generator=generator)
        adj = CompactAdj.from_edge_index(ends, args.nodes)
        x = torch.randn(args.nodes, 100, generator=generator)
        adj.save(f"{folder}/whole")
        np.save(f"{folder}/x.npy", x.numpy())
        partition(adj, f"{folder}/cut", args.size, features={"x": x})
        network = Network(args.size, args.delay / 1e3)
        try:
            running = []
            for number in range(args.size):
                meet = f"--master-addr={NETWORK}.1", f"--master-port={PORT}"
                own = f"--node-rank={number}", f"--local-addr={NETWORK}.{number + 1}"
                run = sys.executable, "-m", "torch.distributed.run", *meet, *own
                size = f"--nnodes={args.size}", "--nproc-per-node=1"
                script = Path(__file__), f"--work={folder}", f"--batches={args.batches}"
                running.append(network.start(number, *run, *size, *map(str, script)))
            codes = [each.wait(600) for each in running]
        finally:
            network.close()
    return max(codes, key=abs)


if __name__ == "__main__":
    sys.exit(main())
