//! A chain that goes round through every path there is ends at the same limit, with one notice.

use skep_core::ids::*;
use skep_core::question::AnswerForm;
use skep_core::task::TaskKind;
use skep_store::assign::{Assign, Assigned, ChainLimits, NewQuestion};
use skep_store::expiry::ExpireTasks;
use skep_store::leases::Lease;
use skep_store::letters::{SendLetter, Sent};
use skep_store::reminders::{Remind, Reminded};

use crate::org::{Org, task};

const LIMITS: ChainLimits = ChainLimits { hops: 9, items: 200 };

/// What an agent does to hand on what it was woken with.
#[derive(Clone, Copy)]
enum Path {
    Message,
    Question,
    Reminder,
    Continue,
}

/// Who comes next in the circle of `ada`, `ben` and `cy`.
fn next(agent: &AgentName) -> &'static str {
    match agent.as_str() {
        "ada" => "ben",
        "ben" => "cy",
        _ => "ada",
    }
}

fn everybody() -> Vec<String> {
    vec!["*".to_owned()]
}

impl Org {
    /// Whether it was handed on.
    async fn hand_on(&self, lease: &Lease, path: Path, call: &str) -> bool {
        let to = next(&lease.agent_name);
        let item = ItemId(format!("{}-{call}", lease.turn));
        match path {
            Path::Question => {
                let question = NewQuestion { form: AnswerForm::default(), recipients: everybody() };
                let (kind, question) = (TaskKind::Question, Some(question));
                let ask = Assign { kind, question, limits: LIMITS, ..task(lease, call, &[to]) };
                matches!(self.give(ask).await, Assigned::Given { .. })
            }
            Path::Message => {
                let letter = SendLetter {
                    turn: lease.turn.clone(),
                    call: CallId::new(call),
                    id: item,
                    to: AgentName::new(to),
                    body: "round".to_owned(),
                    in_reply_to: None,
                    recipients: everybody(),
                    limits: LIMITS,
                    now: 11,
                };
                matches!(self.store.write(letter).await.unwrap(), Sent::Sent(_))
            }
            Path::Reminder | Path::Continue => {
                let remind = Remind {
                    turn: lease.turn.clone(),
                    call: CallId::new(call),
                    id: item,
                    body: "round".to_owned(),
                    at: matches!(path, Path::Reminder).then_some(12),
                    limits: LIMITS,
                    now: 11,
                };
                let set = self.store.write(remind).await.unwrap();
                self.store.write(ExpireTasks { now: 12 }).await.unwrap();
                matches!(set, Reminded::Set { .. })
            }
        }
    }
}

async fn goes_round(paths: &[Path]) {
    let mut org = Org::new().await;
    let mut lease = org.asked("m").await;
    let mut round = 0;
    while org.hand_on(&lease, paths[round % paths.len()], "1").await {
        org.close(&lease, "").await;
        lease = org.take().await.unwrap();
        round += 1;
    }
    assert_eq!(round, 9);
    for (at, path) in paths.iter().enumerate() {
        assert!(!org.hand_on(&lease, *path, &format!("again{at}")).await);
    }
    let frames = org.frames().await;
    let notices = frames.iter().filter(|frame| frame["code"] == "chain_limit").count();
    assert_eq!(notices, 1, "{frames:?}");
}

#[tokio::test]
async fn circles_through_any_path_end() {
    use Path::{Continue, Message, Question, Reminder};
    goes_round(&[Message]).await;
    goes_round(&[Question]).await;
    goes_round(&[Continue]).await;
    goes_round(&[Reminder]).await;
    goes_round(&[Message, Question, Reminder, Continue]).await;
    goes_round(&[Question, Message, Message, Reminder]).await;
}
