//! A chain that goes round through every path there is ends at the same limit, with one notice.

use skep_core::ids::*;
use skep_core::question::AnswerForm;
use skep_core::task::TaskKind;
use skep_store::assign::{Assign, Assigned, ChainLimits, NewQuestion};
use skep_store::expiry::ExpireTasks;
use skep_store::leases::Lease;
use skep_store::letters::{SendLetter, Sent};
use skep_store::reminders::{Remind, Reminded};

use crate::org::{Org, refused, task, up};

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

impl Org {
    async fn notices(&self) -> usize {
        let frames = self.frames().await;
        frames.iter().filter(|frame| frame["code"] == "chain_limit").count()
    }
}

/// Down to `cy` and up to `ada` again, and every result is a reason to begin anew.
#[tokio::test]
async fn work_that_goes_down_and_up_ends() {
    let mut org = Org::new().await;
    let mut lease = Some(org.asked("m").await);
    let (mut turns, mut given, mut down) = (0, 0, true);
    while let Some(at_work) = &lease {
        down = match at_work.agent_name.as_str() {
            "ada" => true,
            "cy" => false,
            _ => !down,
        };
        let team = next(&at_work.agent_name);
        let on = match down {
            true => task(at_work, "1", &[team]),
            false => up(TaskKind::HandUp, at_work, "1"),
        };
        turns += 1;
        // A minute later each time, and in other words: nothing but the chain is in the way.
        let (now, body) = (turns * 60_000, format!("work {turns}"));
        let on = Assign { limits: LIMITS, now, deadline: i64::MAX, body, ..on };
        match org.give(on).await {
            Assigned::Given { new, .. } => given += usize::from(new),
            other => assert_eq!(refused(&other), "chain_limit"),
        }
        org.close(at_work, "").await;
        lease = org.take().await;
    }
    println!("{given} tasks in {turns} turns");
    assert!((9..=200).contains(&given), "{given}");
    assert_eq!(org.notices().await, 1);
}

/// Every result is a reason to give the next task: no hand is further away, and it ends.
#[tokio::test]
async fn two_agents_that_live_on_each_others_results_end() {
    let mut org = Org::new().await;
    let mut ada = org.asked("m").await;
    let mut given = 0;
    while let Assigned::Given { .. } =
        org.give(Assign { limits: LIMITS, ..task(&ada, "1", &["ben"]) }).await
    {
        given += 1;
        org.close(&ada, "once more").await;
        let ben = org.next("ben").await;
        org.close(&ben, "done").await;
        ada = org.next("ada").await;
    }
    let over = org.give(Assign { limits: LIMITS, ..task(&ada, "2", &["ben"]) }).await;
    assert_eq!(refused(&over), "chain_limit");
    assert_eq!((given, org.notices().await), (200, 1));
}

/// A thousand tasks of one request, wherever in its tree they are given.
#[tokio::test]
async fn a_fan_out_of_a_thousand_ends() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    org.given(Assign { limits: LIMITS, ..task(&ada, "first", &["ben"]) }).await;
    let ben = org.next("ben").await;
    let mut given = 1;
    for number in 0..1000 {
        let (lease, team) = if number % 2 == 0 { (&ada, "ben") } else { (&ben, "cy") };
        let call = number.to_string();
        match org.give(Assign { limits: LIMITS, ..task(lease, &call, &[team]) }).await {
            Assigned::Given { .. } => given += 1,
            other => assert_eq!(refused(&other), "chain_limit"),
        }
    }
    assert_eq!((given, org.notices().await), (200, 1));
    let tasks = org.texts("SELECT item FROM tasks").await;
    assert_eq!(tasks.len(), 200);
    // Somebody else's request is not held back.
    let other = org.asked("n").await;
    org.given(Assign { limits: LIMITS, ..task(&other, "1", &["ben"]) }).await;
}
