//! For whom a call is made, as its tool and its hooks see it.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use skep_core::hook::{Before, Hook};
use skep_core::ids::{ChannelId, Principal};
use skep_core::policy::{AgentReach, Class, Effect};
use skep_core::provider::ToolSpec;
use skep_core::tool::{ChainOrigin, Manner, Prepared, Requester, Tool, ToolAnswer};
use skep_store::inbox::Accepted;
use skep_store::outbox::OpenChannel;

use super::run;
use super::tests::Bench;
use crate::snapshot::Offer;

type Seen = Arc<Mutex<Vec<Option<Arc<Requester>>>>>;

struct Who(ToolSpec, Seen);

impl Tool for Who {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn manner(&self, _: &Value, _: AgentReach<'_>) -> Manner {
        Manner::effect(Class::Write)
    }

    fn prepare(&self, _: Value) -> Result<Prepared, String> {
        let seen = Arc::clone(&self.1);
        Ok(Box::new(move |context| {
            seen.lock().unwrap().push(context.requester);
            Box::pin(async { ToolAnswer::ok("seen") })
        }))
    }
}

/// Whether the turn begins with its message, after it waited in its lane, or goes on after a wait
/// for a person.
#[tokio::test]
async fn gate_a_tool_and_a_hook_see_for_whom_a_call_is_made() {
    for (at_once, effect) in [(true, Effect::Allow), (false, Effect::Allow), (true, Effect::Ask)] {
        let mut bench = Bench::new().await;
        bench.listed.push("who".to_owned());
        let seen = Seen::default();
        let spec = ToolSpec {
            name: "who".to_owned(),
            description: String::new(),
            input_schema: json!({"type": "object"}),
        };
        let looks = Arc::clone(&seen);
        let hook = Hook {
            before: Some(Arc::new(move |call| {
                looks.lock().unwrap().push(call.requester);
                Box::pin(async { Ok(Before::Go) })
            })),
            ..Hook::new("who")
        };
        let tools: Vec<Arc<dyn Tool>> = vec![Arc::new(Who(spec, Arc::clone(&seen)))];
        let env = bench.env(bench.script(&[&[("a", "who")]]), effect).await;
        let offer = Offer { tools, hooks: vec![hook], subagents: None };
        env.snapshot.replace(|now| now.with_offer("who", offer)).unwrap();
        let mut message = bench.message("item", "do it");
        message.letter.origin = Some(Principal::new("anna"));
        let (channel, principal) = (ChannelId::new("ws:1"), Principal::new("operator"));
        message.letter.channel = Some(channel.clone());
        bench.store.write(OpenChannel { channel, principal, now: 1 }).await.unwrap();
        if !at_once {
            message.take = None;
        }
        let lease = match bench.store.write(message).await.unwrap() {
            Accepted::Started { lease } => *lease,
            _ => env.lanes.take(None, None).await.unwrap(),
        };
        let session = lease.session.clone();
        run(Arc::clone(&env), lease, None).await;
        if effect == Effect::Ask {
            let question = bench.question().await;
            bench.decide(question, true).await;
            let lease = env.lanes.take(None, None).await.unwrap();
            run(Arc::clone(&env), lease, None).await;
        }
        let known = Requester {
            session,
            principal: Principal::new("operator"),
            origin: ChainOrigin {
                channel: Some("ws:1".to_owned()),
                topic: None,
                principal: Principal::new("anna"),
            },
        };
        // The hook looks again after a wait.
        let looks = if effect == Effect::Ask { 3 } else { 2 };
        let seen = seen.lock().unwrap();
        assert_eq!(*seen, vec![Some(Arc::new(known)); looks], "{at_once} {effect:?}");
    }
}
