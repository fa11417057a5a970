//! Rows of which only the shape matters.

use serde_json::json;
use skep_core::approval::ApprovalKind;
use skep_core::ids::CallId;
use skep_core::message::{Meta, StopReason, Usage};
use skep_core::policy::Class;

use crate::approvals::NewApproval;
use crate::leases::Lease;

pub fn approval(lease: &Lease) -> NewApproval {
    NewApproval {
        id: format!("p{}", lease.token.0),
        kind: ApprovalKind::Call,
        call: CallId::new("b"),
        tool: "bash".into(),
        class: Class::Run,
        arguments: json!({}),
        cwd: "/".into(),
        files: json!([]),
        hash: "h".into(),
        why: json!({}),
        asked_by: vec!["operator".into()],
        expires_at: 20,
    }
}

pub fn meta() -> Meta {
    Meta {
        profile: None,
        provider: "p".into(),
        model: "m".into(),
        api: "a".into(),
        usage: Usage::new(1, 2, 3, 4),
        stop_reason: StopReason::ToolUse,
    }
}
