//! The program as it would be without its care for descriptors: the kernel is told to answer that
//! call with success and to do nothing.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

const UNCLOSED: &str = "RIG_UNCLOSED";

pub fn if_asked() {
    if std::env::var_os(UNCLOSED).is_none() {
        return;
    }
    rustix::thread::set_no_new_privs(true).unwrap();
    let rules = BTreeMap::from([(libc::SYS_close_range, Vec::new())]);
    let architecture = TargetArch::try_from(std::env::consts::ARCH).unwrap();
    let filter =
        SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(0), architecture);
    let program: BpfProgram = filter.unwrap().try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
}
