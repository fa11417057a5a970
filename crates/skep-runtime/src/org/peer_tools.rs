//! The tools by which agents talk to each other, to the operator and to themselves.

use skep_core::policy::Class;
use skep_core::tool::Manner;

use super::tool::OrgTool;
use super::{ask, letters, reminders, threads};

pub(super) fn all() -> Vec<OrgTool> {
    let write = Manner::keyed(Class::Write);
    vec![
        OrgTool::new(ask::ask_spec(), write, ask::ask).also_called(&["ask"]),
        OrgTool::new(ask::answer_spec(), write, ask::answer),
        OrgTool::new(letters::send_spec(), write, letters::send).also_called(&["send"]),
        OrgTool::new(letters::recv_spec(), Manner::TAKE, letters::recv),
        OrgTool::new(reminders::remind_spec(), write, reminders::remind),
        OrgTool::new(reminders::next_turn_spec(), write, reminders::next_turn),
        OrgTool::new(threads::open_spec(), Manner::POLL, threads::open),
        OrgTool::new(threads::cancel_spec(), write, threads::cancel),
        OrgTool::new(threads::whoami_spec(), Manner::POLL, threads::whoami),
        OrgTool::new(threads::status_spec(), write, threads::set_status),
    ]
}
