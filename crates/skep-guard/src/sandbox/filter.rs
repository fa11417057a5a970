//! System calls that are refused although the namespaces leave them open: what reaches past them
//! (sockets to the hypervisor, keys, kernel tracing), what reaches into the first process of the
//! sandbox, whose death ends all others, memory that no limit counts, and bits of a file's mode
//! that would lend the owner's rights to whoever runs it on the host.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use crate::size::Space;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Socket families that end at the sandbox's own network namespace or at a path it can see.
const FAMILIES: [libc::c_int; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Answered as if the kernel did not have them, which programs are prepared for.
const ABSENT: [i64; 17] = [
    // Opens sockets without asking `socket`.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Memory that belongs to no process.
    libc::SYS_memfd_create,
    libc::SYS_memfd_secret,
    // 32 000 queues with a mebibyte of small messages each, counted nowhere.
    libc::SYS_msgget,
    // Hands the mode of a new file over in memory, which a filter cannot read.
    libc::SYS_openat2,
    // Keys, tracing and logs of the whole machine.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_open_by_handle_at,
    libc::SYS_syslog,
    // Takes descriptors of another process, by a handle that does not tell a filter which one.
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
];

/// Calls that look into another process, and which of their arguments is its number. Programs may
/// trace each other, but not the first process. Its folder in `/proc` is covered beside.
const REACHES_PROCESS: [(i64, u8); 3] =
    [(libc::SYS_ptrace, 1), (libc::SYS_process_vm_readv, 0), (libc::SYS_process_vm_writev, 0)];
const FIRST_PROCESS: libc::c_int = 1;

/// The largest shared memory segment. There are at most 4096 in a namespace, so 256 MiB together.
const SHARED_SEGMENT_BYTES: u64 = 64 * 1024;
/// The largest set of semaphores. There are at most 32 000, of 64 bytes each: 128 MiB together.
const SEMAPHORES: u64 = 64;

/// Set-uid and set-gid. On a file of the workspace they would stay when the sandbox is gone.
const LENT_RIGHTS: [u64; 2] = [libc::S_ISUID as u64, libc::S_ISGID as u64];
/// Flags by which opening a file makes one, and then with the given mode.
const MAKES_FILE: [libc::c_int; 2] = [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY];
/// Calls that take a mode, and which of their arguments it is.
const TAKES_MODE: &[(i64, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    // fchmodat2, the same number everywhere.
    (452, 2),
    (libc::SYS_mknodat, 2),
];
/// Calls that take flags and a mode that counts with some of them; where the flags are.
const TAKES_FLAGS: &[(i64, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1),
    (libc::SYS_openat, 2),
];
/// The size of a socket's buffers. As unix sockets have no other limit on what they hold, the
/// size stays as it is; the kernel cuts what is asked for in silence as well.
const BUFFER_SIZES: [libc::c_int; 2] = [libc::SO_SNDBUF, libc::SO_RCVBUF];
const FORCED_SIZES: [libc::c_int; 2] = [libc::SO_SNDBUFFORCE, libc::SO_RCVBUFFORCE];

/// One program per answer, all to be applied.
pub(super) fn programs() -> Result<Vec<BpfProgram>, String> {
    let absent = ABSENT.iter().map(|call| (*call, Vec::new())).collect::<Rules>();
    let size = condition(1, SeccompCmpArgLen::Qword, SeccompCmpOp::Gt, SHARED_SEGMENT_BYTES)?;
    let semaphores = condition(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Gt, SEMAPHORES)?;
    let other_family = FAMILIES
        .iter()
        .map(|family| {
            let family = u64::try_from(*family).map_err(|error| error.to_string())?;
            condition(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, family)
        })
        .collect::<Result<Vec<_>, String>>()?;
    let families = Rules::from([
        (libc::SYS_socket, vec![rule(other_family.clone())?]),
        (libc::SYS_socketpair, vec![rule(other_family)?]),
    ]);
    Ok(vec![
        program(absent, libc::ENOSYS)?,
        program(families, libc::EAFNOSUPPORT)?,
        program(
            Rules::from([
                (libc::SYS_shmget, vec![rule(vec![size])?]),
                (libc::SYS_semget, vec![rule(vec![semaphores])?]),
            ]),
            libc::ENOMEM,
        )?,
        program(Rules::from([(libc::SYS_setsockopt, options(BUFFER_SIZES)?)]), 0)?,
        program(forbidden()?, libc::EPERM)?,
        // Takes room on the disk without counting as written; programs then write zeros instead.
        program(Rules::from([(libc::SYS_fallocate, Vec::new())]), libc::EOPNOTSUPP)?,
    ])
}

/// For a command that leaves a processor to the hive: it stays on those it was given.
pub(super) fn against_other_processors() -> Result<BpfProgram, String> {
    program(Rules::from([(libc::SYS_sched_setaffinity, Vec::new())]), libc::EPERM)
}

/// Calls that make a name or an attribute; what is written is limited otherwise.
const MAKES_NAME: &[i64] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_symlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_link,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mknod,
    libc::SYS_mkdirat,
    libc::SYS_symlinkat,
    libc::SYS_linkat,
    libc::SYS_mknodat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    // setxattrat, the same number everywhere.
    463,
    // A socket of a path is a name.
    libc::SYS_bind,
];

/// For the command alone: what makes a workspace larger that is full, as bytes for bubblewrap. A
/// file that is mapped and shared takes room where it had none and counts as nothing written.
pub(super) fn against_growth(space: Space) -> Result<Option<Vec<u8>>, String> {
    if space == Space::Left {
        return Ok(None);
    }
    let mut rules: Rules = MAKES_NAME.iter().map(|call| (*call, Vec::new())).collect();
    let bits = |flag: libc::c_int| u64::try_from(flag).map_err(|error| error.to_string());
    let shared = has(3, bits(libc::MAP_SHARED)?)?;
    let of_file = SeccompCmpOp::MaskedEq(bits(libc::MAP_ANONYMOUS)?);
    let of_file = condition(3, SeccompCmpArgLen::Dword, of_file, 0)?;
    rules.insert(libc::SYS_mmap, vec![rule(vec![shared, of_file])?]);
    if space == Space::Closed {
        #[cfg(target_arch = "x86_64")]
        rules.insert(libc::SYS_creat, Vec::new());
        for ((call, flags), makes) in
            TAKES_FLAGS.iter().flat_map(|call| MAKES_FILE.map(|makes| (call, makes)))
        {
            rules.entry(*call).or_default().push(rule(vec![has(*flags, bits(makes)?)?])?);
        }
    }
    let program = program(rules, libc::EDQUOT)?;
    let bytes = program.iter().flat_map(|step| {
        let (code, k) = (step.code.to_ne_bytes(), step.k.to_ne_bytes());
        [code[0], code[1], step.jt, step.jf, k[0], k[1], k[2], k[3]]
    });
    Ok(Some(bytes.collect()))
}

/// Options of sockets themselves, by their numbers.
fn options(numbers: [libc::c_int; 2]) -> Result<Vec<SeccompRule>, String> {
    let rules =
        numbers.into_iter().map(|number| rule(vec![is(1, libc::SOL_SOCKET)?, is(2, number)?]));
    rules.collect()
}

/// Larger buffers by force, a look into the first process, and every way to give a file one of the
/// bits that lend rights.
fn forbidden() -> Result<Rules, String> {
    let mut rules = Rules::from([(libc::SYS_setsockopt, options(FORCED_SIZES)?)]);
    for (call, process) in REACHES_PROCESS {
        rules.insert(call, vec![rule(vec![is(process, FIRST_PROCESS)?])?]);
    }
    for bit in LENT_RIGHTS {
        for (call, mode) in TAKES_MODE {
            rules.entry(*call).or_default().push(rule(vec![has(*mode, bit)?])?);
        }
        for ((call, flags), makes) in
            TAKES_FLAGS.iter().flat_map(|call| MAKES_FILE.map(|makes| (call, makes)))
        {
            let makes = u64::try_from(makes).map_err(|error| error.to_string())?;
            let both = vec![has(*flags, makes)?, has(flags + 1, bit)?];
            rules.entry(*call).or_default().push(rule(both)?);
        }
    }
    Ok(rules)
}

fn program(rules: Rules, errno: libc::c_int) -> Result<BpfProgram, String> {
    let errno = u32::try_from(errno).map_err(|error| error.to_string())?;
    let architecture =
        TargetArch::try_from(std::env::consts::ARCH).map_err(|error| error.to_string())?;
    // A program of another architecture (32 bits) is killed: its numbers mean other calls.
    SeccompFilter::new(
        with_second_numbers(rules),
        SeccompAction::Allow,
        SeccompAction::Errno(errno),
        architecture,
    )
    .and_then(TryInto::try_into)
    .map_err(|error| error.to_string())
}

/// Kernels with x32 take every call of x86_64 under a second number as well, and these under one
/// that is theirs alone.
const OTHERWISE_NUMBERED: [(i64, i64); 4] = [
    (libc::SYS_ptrace, 521),
    (libc::SYS_process_vm_readv, 539),
    (libc::SYS_process_vm_writev, 540),
    (libc::SYS_setsockopt, 541),
];

fn with_second_numbers(mut rules: Rules) -> Rules {
    const X32: i64 = 0x4000_0000;
    if cfg!(target_arch = "x86_64") {
        let number = |call: i64| {
            let other = OTHERWISE_NUMBERED.iter().find(|(usual, _)| *usual == call);
            other.map_or(call, |(_, other)| *other) | X32
        };
        let second = rules.clone().into_iter().map(|(call, rule)| (number(call), rule));
        rules.extend(second.collect::<Vec<_>>());
    }
    rules
}

fn is(argument: u8, value: libc::c_int) -> Result<SeccompCondition, String> {
    let value = u64::try_from(value).map_err(|error| error.to_string())?;
    condition(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
}

fn has(argument: u8, bits: u64) -> Result<SeccompCondition, String> {
    condition(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(bits), bits)
}

fn condition(
    argument: u8,
    length: SeccompCmpArgLen,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, String> {
    SeccompCondition::new(argument, length, operator, value).map_err(|error| error.to_string())
}

fn rule(conditions: Vec<SeccompCondition>) -> Result<SeccompRule, String> {
    SeccompRule::new(conditions).map_err(|error| error.to_string())
}
