"""Several hosts on one machine: each has namespaces for network, processes, mounts and names; shaped links join them.

A host is a process that does nothing, in new namespaces; commands enter them with nsenter. Hosts can neither see each
other's processes nor map each other's memory, so they are as far apart as real ones. Links are veth pairs into a bridge
in a namespace of its own, with a token bucket at both ends, or, for a delay and loss, TAP devices of
programs/delay_switch.c. A host on a bridge can be cut off, and have the address of another one.
Nothing gets a name in the system: the namespaces, with all that is in them, end with the processes, which end with the
caller, even where it is killed. Needs root, and ip and tc of iproute2.
"""
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from run import Failure, die_with_parent, find_descendants, kill, run_together

NAMESPACES = ["--net", "--uts", "--ipc", "--pid", "--mount"]
INTERFACE = "eth0"
SUBNET = "10.77.0."
IPV6 = "/proc/sys/net/ipv6/conf/default"
START = f"""
set -e
! [ -e {IPV6} ] || echo 1 > {IPV6}/disable_ipv6
mount --bind "$2" /etc/hosts
hostname "$1"
ip link set lo up
echo ready
exec cat
"""


@dataclass
class Link:
    name: str
    bits: float  # a second; 0: not shaped
    burst: str = ""  # of the token bucket
    delay_us: float = 0  # one way
    loss: float = 0  # part of all packets; needs a delay


LINKS = {link.name: link for link in (
    Link("plain", 0), Link("1gbit", 1e9, "128kb"), Link("10gbit", 10e9, "1mb"), Link("1ms", 1e9, delay_us=1000))}


def why_not(link, delay_switch=None):
    """Why hosts on this link cannot be made here; None where they can."""
    try:
        with Hosts(2, link, delay_switch):
            return None
    except (Failure, OSError) as failure:
        return str(failure)


class Background:
    """A program that says "ready" and goes on until it is killed."""

    def __init__(self, command):
        self.errors = tempfile.TemporaryFile("w+", errors="replace")
        self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors, text=True, start_new_session=True,
                                        preexec_fn=die_with_parent)
        if self.process.stdout.readline() != "ready\n":
            said = self.stop()
            raise Failure(f"{' '.join(map(str, command[:3]))} ...: {said}")

    def stop(self):
        """What it said in errors."""
        kill(self.process.pid)
        self.process.wait()
        self.errors.seek(0)
        said = self.errors.read().strip()
        for each in (self.process.stdin, self.process.stdout, self.errors):
            each.close()
        return said


class Namespace:
    """New namespaces of every kind, kept by a process that waits for its input to end."""

    def __init__(self, name, names_file):
        self.holder = Background(["unshare", *NAMESPACES, "--fork", "--kill-child", "--mount-proc", "--", "sh", "-c", START,
                                  "sh", name, names_file])
        self.pid = find_descendants([self.holder.process.pid]).pop()

    def enter(self, command, kinds=NAMESPACES):
        return ["nsenter", f"--target={self.pid}", *kinds, "--", *map(str, command)]

    def run(self, command, timeout=20):
        return run_together([(self.enter(command), dict(os.environ))], timeout)


class Host(Namespace):
    def __init__(self, number, names_file):
        super().__init__(host_name(number), names_file)
        self.address = host_address(number)

    def enter_network(self, command):
        """For a starter of processes, which has to see the other hosts from outside."""
        return self.enter(command, ["--net", "--uts"])

    def set_address(self, address):
        """Instead of the one that it has; its connections stay, but are of no more use."""
        self.address = address
        # cubic is what Linux comes with, whatever this machine is set to; a program may still choose for itself
        script = f"""ip address flush dev {INTERFACE} && ip address add {address}/24 dev {INTERFACE} noprefixroute &&
                     ip link set {INTERFACE} up &&
                     ip route add {SUBNET}0/24 dev {INTERFACE} src {address} congctl cubic"""
        administer(self.enter(["sh", "-c", script]))


def host_name(number):
    return f"host{number}"


def host_address(number):
    return f"{SUBNET}{number + 1}"


def administer(*commands):
    for command in commands:
        run_together([(command, dict(os.environ))], 20)


class Hosts:
    """A context: count hosts on one link each, and what joins them."""

    def __init__(self, count, link, delay_switch=None):
        self.count, self.link, self.delay_switch = count, link, delay_switch
        self.list, self.held = [], []

    def __enter__(self):
        try:
            self.start()
            return self
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_):
        self.stop()

    def __iter__(self):
        return iter(self.list)

    def __getitem__(self, number):
        return self.list[number]

    def hold(self, thing):
        self.held.append(thing)
        return thing

    def start(self):
        self.folder = tempfile.TemporaryDirectory(prefix="lockstep-hosts-")
        names = Path(self.folder.name) / "hosts"
        names.write_text("127.0.0.1 localhost\n" + "".join(
            f"{host_address(number)} {host_name(number)}\n" for number in range(self.count)))
        for number in range(self.count):
            self.list.append(Host(number, names))
            self.hold(self.list[-1].holder)
        if self.link.delay_us:
            self.start_delay_switch()
        else:
            self.start_bridge(names)
        for host in self.list:
            host.set_address(host.address)

    def start_delay_switch(self):
        if not self.delay_switch or not os.access(self.delay_switch, os.X_OK):
            raise Failure(f"{self.delay_switch} is missing; it is built with Lockstep (scripts/quickstart)")
        spaces = [f"/proc/{host.pid}/ns/net" for host in self.list]
        self.hold(Background([self.delay_switch, self.link.bits, self.link.delay_us, self.link.loss, INTERFACE,
                              *spaces]))

    def start_bridge(self, names):
        self.bridge = bridge = Namespace("bridge", names)
        self.hold(bridge.holder)
        outside = ["--net"]  # where the hosts' process numbers mean something
        administer(bridge.enter("ip link add bridge type bridge".split(), outside),
                   bridge.enter("ip link set bridge up".split(), outside))
        for number, host in enumerate(self.list):
            port = f"port{number}"
            administer(bridge.enter(["ip", "link", "add", port, "type", "veth", "peer", "name", INTERFACE, "netns",
                                     host.pid], outside),
                       bridge.enter(f"ip link set {port} master bridge up".split(), outside))
            if self.link.bits:
                shape = ["root", "tbf", "rate", f"{self.link.bits:.0f}bit", "burst", self.link.burst, "latency", "20ms"]
                administer(bridge.enter(["tc", "qdisc", "add", "dev", port, *shape], outside),
                           host.enter(["tc", "qdisc", "add", "dev", INTERFACE, *shape]))

    def set_link(self, number, state):
        """"down": whatever a host on a bridge sends or is sent is lost; "up": no more."""
        administer(self.bridge.enter(["ip", "link", "set", f"port{number}", state], ["--net"]))

    def stop(self):
        for each in reversed(self.held):
            each.stop()
        self.held, self.list = [], []
        self.folder.cleanup()

    def write_agent(self, path):
        """A program that starts others on a host by address or name, as ssh would, for the starters of other projects."""
        cases = "".join(f"{host.address}|{host_name(number)}) enter='{' '.join(host.enter([]))}' ;;\n"
                        for number, host in enumerate(self.list))
        path.write_text(f'#!/bin/sh\ncase "$1" in\n{cases}*) echo "no host $1" >&2; exit 1 ;;\nesac\nshift\n'
                        'exec $enter sh -c "$*"\n')
        path.chmod(0o755)
        return path
