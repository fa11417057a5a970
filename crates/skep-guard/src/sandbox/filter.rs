//! System calls that are refused although the namespaces leave them open: what reaches past them
//! (sockets to the hypervisor, keys, kernel tracing) and memory that no limit counts.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Socket families that end at the sandbox's own network namespace or at a path it can see.
const FAMILIES: [libc::c_int; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Answered as if the kernel did not have them, which programs are prepared for.
const ABSENT: [i64; 13] = [
    // Opens sockets without asking `socket`.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Memory that belongs to no process.
    libc::SYS_memfd_create,
    libc::SYS_memfd_secret,
    // Keys, tracing and logs of the whole machine.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_open_by_handle_at,
    libc::SYS_syslog,
];

/// The largest shared memory segment. There are at most 4096 in a namespace, so 256 MiB together.
const SHARED_SEGMENT_BYTES: u64 = 64 * 1024;

/// One program per answer, all to be applied.
pub(super) fn programs() -> Result<Vec<BpfProgram>, String> {
    let absent = ABSENT.iter().map(|call| (*call, Vec::new())).collect::<Rules>();
    let size = condition(1, SeccompCmpArgLen::Qword, SeccompCmpOp::Gt, SHARED_SEGMENT_BYTES)?;
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
        program(Rules::from([(libc::SYS_shmget, vec![rule(vec![size])?])]), libc::ENOMEM)?,
        // Takes room on the disk without counting as written; programs then write zeros instead.
        program(Rules::from([(libc::SYS_fallocate, Vec::new())]), libc::EOPNOTSUPP)?,
    ])
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

/// Kernels with x32 take every call of x86_64 under a second number as well.
fn with_second_numbers(mut rules: Rules) -> Rules {
    const X32: i64 = 0x4000_0000;
    if cfg!(target_arch = "x86_64") {
        let second = rules.clone().into_iter().map(|(call, rule)| (call | X32, rule));
        rules.extend(second.collect::<Vec<_>>());
    }
    rules
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
