//! The program as it would be without one of its own walls: the kernel is told to answer a call
//! with success and to do nothing.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

/// By the variable that asks for it.
const WALLS: [(&str, i64); 3] = [
    // Descriptors are closed.
    ("RIG_UNCLOSED", libc::SYS_close_range),
    // System calls are filtered.
    ("RIG_UNFILTERED", libc::SYS_seccomp),
    // The hive listens in the network of a program.
    ("RIG_UNHEARD", libc::SYS_listen),
];

pub fn if_asked() {
    let asked = WALLS.iter().filter(|(variable, _)| std::env::var_os(variable).is_some());
    let rules: BTreeMap<i64, Vec<_>> = asked.map(|(_, call)| (*call, Vec::new())).collect();
    if rules.is_empty() {
        return;
    }
    rustix::thread::set_no_new_privs(true).unwrap();
    let architecture = TargetArch::try_from(std::env::consts::ARCH).unwrap();
    let filter =
        SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(0), architecture);
    let program: BpfProgram = filter.unwrap().try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
}
