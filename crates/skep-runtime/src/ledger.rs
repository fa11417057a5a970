//! What model calls used and hold: of the hive and of each agent today, and of each turn. Kept in
//! memory beside the rows; a call takes what it may use before it is made, so that calls side by
//! side never use more than a limit leaves.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use skep_core::Millis;
use skep_core::budget::{self, Account, Caps, Need, Over, Scope};
use skep_core::engine::{Allowance, Ended, Hold};
use skep_core::ids::{AgentName, TurnId};
use skep_core::message::{Meta, Usage};
use skep_core::provider::ModelRequest;
use skep_core::settings::{AgentSettings, Limits, Profile};
use skep_core::spend::{self, Spend};
use skep_core::{BoxFuture, count};
use skep_guard::clock;
use skep_store::spend::{ChargeLost, Unsettled};
use skep_store::{Store, StoreError};

use crate::hive::Shared;
use crate::turn::context::ModelContext;
use crate::turn::persist::Lost;
use crate::turn::{Heard, Turn, system_prompt};

/// A call that fits as soon as others give back what they hold waits for that, no longer than this.
const WAIT: Duration = Duration::from_secs(120);

pub(crate) struct Ledger {
    /// Locked for sums only, never across an await.
    books: Mutex<Books>,
    /// Something was given back.
    freed: Notify,
}

#[derive(Default)]
struct Books {
    day: i64,
    hive: Account,
    agents: HashMap<AgentName, Account>,
    /// Of the turns that run here.
    turns: HashMap<TurnId, Account>,
    /// Limits of which people were warned today.
    warned: HashSet<String>,
    /// What other days came to: a clock that is set right finds its day again.
    others: BTreeMap<i64, Day>,
}

/// Days that are remembered beside the one it is.
const DAYS: usize = 8;

/// The accounts of a day, without what calls hold.
#[derive(Default)]
struct Day {
    hive: Account,
    agents: HashMap<AgentName, Account>,
}

impl Books {
    /// A new day begins with nothing but what calls under way hold; one that was there before goes
    /// on where it was left.
    fn turn_to(&mut self, now: Millis) {
        let day = spend::day_of(now);
        if self.day == day {
            return;
        }
        let mut known = self.others.remove(&day).unwrap_or_default();
        let mut left = Day { hive: turned(&mut self.hive, known.hive), agents: HashMap::new() };
        for (name, account) in &mut self.agents {
            let then = known.agents.remove(name).unwrap_or_default();
            left.agents.insert(name.clone(), turned(account, then));
        }
        self.agents.extend(known.agents);
        self.others.insert(self.day, left);
        while self.others.len() > DAYS {
            self.others.pop_first();
        }
        self.day = day;
        self.warned.clear();
    }

    /// Every account a call of this turn belongs to.
    fn each(&mut self, whose: &Whose, change: impl Fn(&mut Account)) {
        change(&mut self.hive);
        change(self.agents.entry(whose.agent.clone()).or_default());
        // A turn that has ended is of no interest any more.
        if let Some(turn) = self.turns.get_mut(&whose.turn) {
            change(turn);
        }
    }
}

/// Puts what was used on another day in place, and gives what was there.
fn turned(account: &mut Account, then: Account) -> Account {
    let held = std::mem::take(&mut account.held);
    std::mem::replace(account, Account { held, ..then })
}

#[derive(Clone)]
struct Whose {
    agent: AgentName,
    turn: TurnId,
}

/// The limits that hold for a call, narrowest first.
struct Bounds<'a> {
    agent: &'a AgentSettings,
    limits: &'a Limits,
}

impl Bounds<'_> {
    fn scopes(&self) -> [(Scope<'_>, Caps); 4] {
        let (name, own) = (self.agent.name.as_str(), &self.agent.budgets);
        [
            (Scope::Turn(Some(name)), own.turn),
            (Scope::Turn(None), self.limits.per_turn),
            (Scope::Agent(name), own.day),
            (Scope::Hive, self.limits.day_caps()),
        ]
    }

    fn any(&self) -> bool {
        self.scopes().iter().any(|(_, caps)| !caps.is_none())
    }
}

impl Ledger {
    pub async fn load(store: &Store, now: Millis) -> Result<Self, StoreError> {
        let day = spend::day_of(now);
        let read = store.read(async |conn| skep_store::spend::of_day(conn, day).await);
        let mut books = Books { day, ..Books::default() };
        for used in read.await? {
            for account in [&mut books.hive, books.agents.entry(used.agent).or_default()] {
                account.spent.join(&used.spent);
                account.unsettled.join(&used.unsettled);
            }
        }
        Ok(Self { books: Mutex::new(books), freed: Notify::new() })
    }

    /// As vendors counted it.
    pub fn today(&self, now: Millis) -> Spend {
        self.books(now).hive.spent
    }

    pub fn hive(&self, now: Millis) -> Account {
        self.books(now).hive
    }

    pub fn agents(&self, now: Millis) -> HashMap<AgentName, Account> {
        self.books(now).agents.clone()
    }

    fn begin(&self, turn: &TurnId, spent: Spend) {
        let account = Account { spent, ..Account::default() };
        self.books(clock::now_ms()).turns.insert(turn.clone(), account);
    }

    pub fn end(&self, turn: &TurnId) {
        self.books(clock::now_ms()).turns.remove(turn);
    }

    fn try_hold(
        &self,
        bounds: &Bounds<'_>,
        whose: &Whose,
        need: &Need,
        now: Millis,
    ) -> Result<(), Over> {
        let mut books = self.books(now);
        let turn = books.turns.get(&whose.turn).copied().unwrap_or_default();
        let agent = books.agents.get(&whose.agent).copied().unwrap_or_default();
        for (scope, caps) in bounds.scopes() {
            let account = match scope {
                Scope::Turn(_) => &turn,
                Scope::Agent(_) => &agent,
                Scope::Hive => &books.hive,
            };
            budget::admit(scope, &caps, account, need, now)?;
        }
        books.each(whose, |account| account.held.take(need));
        Ok(())
    }

    /// Gives back what was held and counts what was used instead, in one step.
    fn settle(&self, whose: &Whose, need: &Need, used: Option<&Usage>, exact: bool) {
        self.books(clock::now_ms()).each(whose, |account| {
            account.held.give_back(need);
            match used {
                Some(usage) if exact => account.spent.add(usage),
                Some(usage) => account.unsettled.add(usage),
                None => {}
            }
        });
        self.freed.notify_waiters();
    }

    /// What people are to be told now, each once a day.
    fn warnings(&self, bounds: &Bounds<'_>, whose: &Whose) -> Vec<String> {
        let mut books = self.books(clock::now_ms());
        let turn = books.turns.get(&whose.turn).copied().unwrap_or_default();
        let agent = books.agents.get(&whose.agent).copied().unwrap_or_default();
        let mut told = Vec::new();
        for (scope, caps) in bounds.scopes() {
            let (account, key) = match scope {
                Scope::Turn(_) => (&turn, format!("turn {}", whose.turn)),
                Scope::Agent(name) => (&agent, format!("agent {name}")),
                Scope::Hive => (&books.hive, String::new()),
            };
            if let Some(text) = budget::warning(scope, &caps, account)
                && books.warned.insert(key)
            {
                told.push(text);
            }
        }
        told
    }

    fn books(&self, now: Millis) -> MutexGuard<'_, Books> {
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        books.turn_to(now);
        books
    }
}

/// A call that is about to be made, or is under way.
struct Call {
    shared: Arc<Shared>,
    agent: Arc<AgentSettings>,
    whose: Whose,
}

impl Call {
    /// Waits where the limits would leave room but for what other calls hold.
    async fn hold(self, profile: Arc<Profile>, request: Arc<ModelRequest>) -> Result<Hold, Over> {
        let shared = Arc::clone(&self.shared);
        let until = tokio::time::Instant::now() + WAIT;
        let mut counted = None;
        loop {
            let freed = shared.ledger.freed.notified();
            tokio::pin!(freed);
            // Heard from here on, also what is given back while the limits are looked at.
            freed.as_mut().enable();
            let settings = self.shared.settings();
            let limits = &settings.limits;
            // The limits are those that hold now, not those of the turn's beginning.
            let agent = settings.agent(&self.agent.name).unwrap_or_else(|_| self.agent.clone());
            let bounds = Bounds { agent: &agent, limits };
            let prompt = match counted {
                Some(counted) => counted,
                None if bounds.any() => *counted.insert(count::of_request(&request)),
                // Nothing to compare with.
                None => 0,
            };
            let room = u64::from(request.max_output_tokens);
            let need = Need::new(prompt, room, profile.price.as_ref());
            let now = clock::now_ms();
            match self.shared.ledger.try_hold(&bounds, &self.whose, &need, now) {
                Ok(()) => return Ok(self.held(profile, prompt, need)),
                Err(over) if !over.by_holds => return Err(self.refused(over)),
                Err(over) => {
                    if tokio::time::timeout_at(until, freed).await.is_err() {
                        return Err(self.refused(over));
                    }
                }
            }
        }
    }

    fn refused(&self, over: Over) -> Over {
        self.shared.meters.over_budget(over.code);
        over
    }

    fn held(self, profile: Arc<Profile>, prompt: u64, need: Need) -> Hold {
        Hold::new(move |ended| {
            let Self { shared, whose, .. } = self;
            let guessed =
                |output: u64| Usage::new(prompt, output, 0, 0).priced(profile.price.as_ref());
            match ended {
                Ended::Answered(usage) => {
                    shared.ledger.settle(&whose, &need, Some(&usage), true);
                }
                Ended::Refused => shared.ledger.settle(&whose, &need, None, true),
                // Nobody told what it used: the whole request, and as much as was heard.
                Ended::Untold { heard } => {
                    let usage = guessed(heard);
                    shared.ledger.settle(&whose, &need, Some(&usage), false);
                    keep_unsettled(&shared, &whose.agent, &profile, usage);
                }
            }
        })
    }
}

fn keep_unsettled(shared: &Arc<Shared>, agent: &AgentName, profile: &Profile, usage: Usage) {
    if let Ok(agent) = shared.agent_id(agent) {
        let (profile, now) = (profile.name.clone(), clock::now_ms());
        // Written with the next commit; nobody waits for it.
        drop(shared.store.submit(Unsettled { agent, profile, usage, now }));
    }
}

impl Turn {
    fn whose(&self) -> Whose {
        Whose { agent: self.agent.name.clone(), turn: self.lease.turn.clone() }
    }

    /// Opens the turn's own account, with what it used before this lease.
    pub(crate) fn open_account(&self, usage: &Usage) {
        let mut spent = Spend::default();
        if usage.total_tokens > 0 {
            spent.add(usage);
        }
        self.shared.ledger.begin(&self.lease.turn, spent);
    }

    /// Takes what a model call used into the turn's sums, and tells what has to be told.
    pub(crate) fn count(&self, meta: &Meta, heard: &mut Heard) {
        heard.usage.add(meta.usage);
        let limits = &self.shared.settings().limits;
        let bounds = Bounds { agent: &self.agent, limits };
        if bounds.any() {
            let told = self.shared.ledger.warnings(&bounds, &self.whose());
            told.into_iter().for_each(|text| self.tell_with_next_row(text));
        }
    }

    pub(crate) fn allowance(&self) -> Allowance {
        let (shared, agent) = (Arc::clone(&self.shared), Arc::clone(&self.agent));
        let whose = self.whose();
        Allowance::new(move |profile, request| -> BoxFuture<'static, Result<Hold, Over>> {
            let (shared, agent) = (Arc::clone(&shared), Arc::clone(&agent));
            let call = Call { shared, agent, whose: whose.clone() };
            Box::pin(call.hold(Arc::clone(profile), Arc::clone(request)))
        })
    }

    /// The process before this one ended while the turn ran: if it was the model's turn to speak,
    /// the call it was in may have been charged in full, and nobody will ever tell.
    pub(crate) async fn charge_lost_call(&self, context: &ModelContext) -> Result<(), Lost> {
        let limits = &self.shared.settings().limits;
        if !(Bounds { agent: &self.agent, limits }).any() {
            return Ok(());
        }
        let profile = &self.agent.profile;
        let specs = self.shared.toolbox.specs(&self.agent);
        let system = system_prompt(&self.settings, &self.agent, &specs);
        let words = count::of_text(&system.shared) + count::of_text(&system.agent);
        let rows = context.all();
        let prompt = words
            + specs.iter().map(count::of_tool).sum::<u64>()
            + count::of_messages(rows.iter().map(AsRef::as_ref));
        let room = u64::from(profile.max_output_tokens);
        let usage = Usage::new(prompt, room, 0, 0).priced(profile.price.as_ref());
        let charge = ChargeLost {
            turn: self.lease.turn.clone(),
            token: self.lease.token,
            agent: self.lease.agent,
            profile: profile.name.clone(),
            usage,
            now: clock::now_ms(),
        };
        if self.persist_any(charge).await? {
            let whose = self.whose();
            let mut books = self.shared.ledger.books(clock::now_ms());
            books.each(&whose, |account| account.unsettled.add(&usage));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use skep_core::message::Usage;
    use skep_core::spend::DAY_MS;

    use super::*;

    /// A clock that jumps, forth or back, forgives nothing: each day has what it used.
    #[test]
    fn a_clock_that_jumps_finds_its_day_again() {
        let mut books = Books { day: 100, ..Books::default() };
        let whose = Whose { agent: AgentName("main".to_owned()), turn: TurnId("t".to_owned()) };
        let need = Need { tokens: 7, cost: None };
        books.each(&whose, |account| account.held.take(&need));
        let spend = |books: &mut Books, tokens| {
            let usage = Usage::new(tokens, 0, 0, 0);
            books.each(&whose, |account| account.spent.add(&usage));
            books.each(&whose, |account| account.unsettled.add(&usage));
        };
        let jumps = [(100, 5, 5), (101, 3, 3), (100, 1, 6), (99, 2, 2), (101, 1, 4), (100, 0, 6)];
        for (day, more, tokens) in jumps {
            books.turn_to(day * DAY_MS + 1);
            spend(&mut books, more);
            let agent = books.agents[&whose.agent];
            for account in [books.hive, agent] {
                assert_eq!((account.spent.tokens, account.unsettled.tokens), (tokens, tokens));
                assert_eq!(account.held.tokens, 7, "what is held is held on any day");
            }
        }
        for day in 200..300 {
            books.turn_to(day * DAY_MS);
        }
        assert_eq!(books.others.len(), DAYS);
    }
}
