"""The system-call filter of a jail, as classic BPF that bubblewrap loads right before the program starts.

Namespaces already hide the host; the filter removes the kernel's rarely needed parts, where most escapes
were found, and the calls that would undo the limits: memory that no rlimit counts (memfd, System V), new
namespaces, tracing, networks. Calls newer than the table answer ENOSYS, so a new kernel opens nothing.
"""

import errno
import platform
import struct
from collections.abc import Iterable

from zgcm.errors import ZgcmError

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
NEWEST_CALL = 462
"""mseal, Linux 6.10."""

# name: (x86_64, aarch64); -1 where an architecture lacks it
DENIED = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "unshare": (272, 97),
    "setns": (308, 268),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    "personality": (135, 92),
    "modify_ldt": (154, -1),
    "iopl": (172, -1),
    "ioperm": (173, -1),
    "uselib": (134, -1),
    "mlock": (149, 228),
    "mlock2": (325, 284),
    "mlockall": (151, 230),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "acct": (163, 89),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "lookup_dcookie": (212, 18),
    "vhangup": (153, 58),
    "fanotify_init": (300, 262),
    "landlock_create_ruleset": (444, 444),
    "seccomp": (317, 277),
    "mbind": (237, 235),
    "set_mempolicy": (238, 237),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
}
CLONE, CLONE3, IOCTL, SOCKET = (56, 220), (435, 435), (16, 29), (41, 198)
NEW_NAMESPACES = 0x7E020000 | 0x00000080  # CLONE_NEW{NS,CGROUP,UTS,IPC,USER,PID,NET,TIME}
TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: typing into another's terminal
AF_UNIX = 1

_LOAD, _EQUAL, _GREATER, _SET, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24  # offsets in struct seccomp_data, little endian


def program(machine: str = "") -> bytes:
    """The filter for a machine (default: this one). Raises ZgcmError for one without a table."""
    machine = machine or platform.machine()
    if machine not in ARCHITECTURES:
        raise ZgcmError(
            "No system-call filter for this machine", found=machine, expected=" or ".join(ARCHITECTURES)
        )
    column = list(ARCHITECTURES).index(machine)
    refuse = (_RETURN, 0, 0, _ERRNO | errno.EPERM)
    unknown = (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)
    lines = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, ARCHITECTURES[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_GREATER, 0, 1, NEWEST_CALL),  # also every call of the x32 interface (bit 30)
        unknown,
        (_EQUAL, 0, 1, CLONE3[column]),  # its flags lie in memory, out of a filter's sight: libc falls back
        unknown,
    ]
    for numbers in DENIED.values():
        if numbers[column] >= 0:
            lines += [(_EQUAL, 0, 1, numbers[column]), refuse]
    lines += [
        (_EQUAL, 0, 4, CLONE[column]),
        (_LOAD, 0, 0, _FIRST),
        (_SET, 0, 1, NEW_NAMESPACES),
        refuse,
        (_RETURN, 0, 0, _ALLOW),
        (_EQUAL, 0, 4, SOCKET[column]),
        (_LOAD, 0, 0, _FIRST),
        (_EQUAL, 1, 0, AF_UNIX),
        refuse,
        (_RETURN, 0, 0, _ALLOW),
        (_EQUAL, 0, 4, IOCTL[column]),
        (_LOAD, 0, 0, _SECOND),
        (_EQUAL, 1, 0, TERMINAL_INPUT[0]),
        (_EQUAL, 0, 1, TERMINAL_INPUT[1]),
        refuse,
        (_RETURN, 0, 0, _ALLOW),
    ]
    return assemble(lines)


def assemble(lines: Iterable[tuple[int, int, int, int]]) -> bytes:
    """`struct sock_filter` of each (code, jump if true, jump if false, constant)."""
    return b"".join(struct.pack("<HBBI", *line) for line in lines)
