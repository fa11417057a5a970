//! Changes of the hive that a person has to approve.

use serde_json::json;
use skep_core::approval::ApprovalKind;
use skep_core::cause::CallRef;
use skep_core::decision::Decision;
use skep_core::ids::*;
use skep_core::message::{Block, Body};
use skep_core::policy::Class;
use skep_store::approvals::NewApproval;
use skep_store::history::NewHistoryRow;
use skep_store::journal::{Entry, Journal, NewCall};
use skep_store::leases::Lease;
use skep_store::ops::OpStanding;
use skep_store::shutdown::BeginShutdown;
use skep_store::spawn::{BeginSpawn, Spawner};
use skep_store::teams::GuardTeam;

use crate::org::Org;

fn asked(call: &str) -> Entry {
    let approval = NewApproval {
        id: format!("ask-{call}"),
        kind: ApprovalKind::Shape,
        call: CallId::new(call),
        tool: "shutdown_team".to_owned(),
        class: Class::Shape,
        arguments: json!({"name": "ben", "cascade": true}),
        cwd: String::new(),
        files: json!([]),
        hash: "h".to_owned(),
        why: json!({}),
        asked_by: vec!["anna".to_owned()],
        expires_at: 1000,
    };
    Entry::Asked { approval: Box::new(approval) }
}

/// A call that runs with the yes to the question of another one.
fn approved(call: &str, asked: &str) -> Entry {
    let (id, name) = (CallId::new(call), "shutdown_team".to_owned());
    let block = Block::ToolCall { id: id.clone(), name: name.clone(), arguments: json!({}) };
    let body = Body::assistant(vec![block], None);
    let yes = Decision::Approval {
        id: ApprovalId::new(format!("ask-{asked}")),
        approve: true,
        by: "operator".to_owned(),
        note: None,
    };
    let new = NewCall { id, tool: name, retry_safe: true, decision: Some(yes), own: false };
    Entry::Assistant { message: NewHistoryRow::new(call.to_owned(), body), calls: vec![new] }
}

impl Org {
    async fn journal(&self, lease: &Lease, entries: Vec<Entry>) {
        let (turn, token) = (lease.turn.clone(), lease.token);
        let journal = Journal { turn, token, entries, steer: false, active_ms: 1, now: 12 };
        self.store.write(journal).await.unwrap();
    }

    async fn remove(&self, lease: &Lease, call: &str) -> OpStanding {
        let call = CallRef { turn: lease.turn.clone(), call: CallId::new(call) };
        let begin = BeginShutdown {
            op: call.call.to_string(),
            name: AgentName::new("ben"),
            cascade: true,
            call: Some(call),
            by: "agent:ada".to_owned(),
            now: 13,
        };
        self.store.write(begin).await.unwrap()
    }

    async fn guard(&self, lease: &Lease, call: &str) -> Option<&'static str> {
        let call = CallRef { turn: lease.turn.clone(), call: CallId::new(call) };
        let guard = GuardTeam { call, team: AgentName::new("ben") };
        self.store.write(guard).await.unwrap().map(|(code, _)| code)
    }
}

#[tokio::test]
async fn a_yes_is_about_the_agents_that_were_there_when_it_was_asked_for() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    org.journal(&ada, vec![asked("1"), approved("2", "1")]).await;
    // Those below ben, and ben himself, are made anew in the meantime.
    for (agents, may) in [("id = 3", None), ("id >= 2", Some("changed"))] {
        org.raw(&format!("UPDATE agents SET created_at = 12 WHERE {agents}")).await;
        let removed = org.remove(&ada, "2").await;
        assert!(matches!(removed, OpStanding::Refused { code: "changed", .. }), "{removed:?}");
        assert_eq!(org.guard(&ada, "2").await, may);
    }
    assert_eq!(org.guard(&ada, "3").await, None, "a call that nobody was asked about");
    org.raw("UPDATE agents SET created_at = 11").await;
    assert_eq!(org.remove(&ada, "2").await, OpStanding::Begun);
}

#[tokio::test]
async fn a_key_stands_for_one_change() {
    let org = Org::new().await;
    let spawn = async |name: &str| {
        let begin = BeginSpawn {
            op: "key".to_owned(),
            name: AgentName::new(name),
            spawner: Spawner::Person { parent: None },
            by: "anna".to_owned(),
            now: 13,
        };
        org.store.write(begin).await.unwrap()
    };
    let remove = async |op: &str, name: &str| {
        let begin = BeginShutdown {
            op: op.to_owned(),
            name: AgentName::new(name),
            cascade: true,
            call: None,
            by: "anna".to_owned(),
            now: 13,
        };
        org.store.write(begin).await.unwrap()
    };
    assert_eq!(spawn("dan").await, OpStanding::Begun);
    assert_eq!(spawn("dan").await, OpStanding::Unfinished);
    assert_eq!(remove("other", "cy").await, OpStanding::Begun);
    assert_eq!(remove("other", "cy").await, OpStanding::Unfinished);
    for reused in [spawn("eve").await, remove("key", "dan").await, remove("other", "ben").await] {
        assert!(matches!(reused, OpStanding::Refused { code: "id_reused", .. }), "{reused:?}");
    }
}
