//! What model calls used and hold: of the hive and of each agent today, and of each turn. Kept in
//! memory beside the rows; a call takes what it may use before it is made, so that calls side by
//! side never use more than a limit leaves.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use skep_core::Millis;
use skep_core::budget::{self, Account, Caps, Need, Over, Scope};
use skep_core::engine::{Allowance, Hold, Settlement};
use skep_core::ids::{AgentId, AgentName, TurnId};
use skep_core::message::{Meta, Usage};
use skep_core::provider::ModelRequest;
use skep_core::settings::{AgentMap, AgentSettings, Limits, Profile};
use skep_core::spend;
use skep_core::{BoxFuture, count};
use skep_guard::clock;
use skep_store::spend::{Unsettled, Unusable, Used};
use skep_store::{Store, StoreError};

use crate::handles::Meters;
use crate::snapshot::{Snapshot, SnapshotCell};

/// A call that fits as soon as others give back what they hold waits for that, no longer than this.
const WAIT: Duration = Duration::from_secs(120);

pub struct Ledger {
    /// Locked for sums only, never across an await.
    books: Mutex<Books>,
    /// Something was given back.
    freed: Notify,
    store: Store,
    snapshot: Arc<SnapshotCell>,
    meters: Arc<Meters>,
}

#[derive(Default)]
struct Books {
    day: i64,
    hive: Account,
    agents: HashMap<AgentId, Account>,
    /// Everybody above an agent when it last called a model: what it used stays with them when it
    /// is removed.
    above: HashMap<AgentId, Vec<AgentId>>,
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
    agents: HashMap<AgentId, Account>,
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
        for (agent, account) in &mut self.agents {
            let then = known.agents.remove(agent).unwrap_or_default();
            left.agents.insert(*agent, turned(account, then));
        }
        self.agents.extend(known.agents);
        self.others.insert(self.day, left);
        while self.others.len() > DAYS {
            self.others.pop_first();
        }
        self.day = day;
        self.warned.clear();
    }

    /// What agents came to together, with those that were below them and are there no more.
    fn team(&self, members: &[AgentId], living: &AgentMap<AgentId>) -> Account {
        let is_gone = |agent: &AgentId| !living.iter().any(|(_, id)| id == agent);
        let was_below = |agent: &AgentId| {
            let mut above = self.above.get(agent).into_iter().flatten();
            above.any(|id| members.contains(id)) && is_gone(agent)
        };
        let mut team = Account::default();
        for (agent, account) in &self.agents {
            if members.contains(agent) || was_below(agent) {
                team.join(account);
            }
        }
        team
    }

    /// Every account a call belongs to. One of no turn is the hive's alone.
    fn each(&mut self, payer: Option<&Payer>, change: impl Fn(&mut Account)) {
        change(&mut self.hive);
        let Some(payer) = payer else { return };
        change(self.agents.entry(payer.agent).or_default());
        // A turn that has ended is of no interest any more.
        if let Some(turn) = self.turns.get_mut(&payer.turn) {
            change(turn);
        }
    }
}

/// Puts what was used on another day in place, and gives what was there.
fn turned(account: &mut Account, then: Account) -> Account {
    let held = std::mem::take(&mut account.held);
    std::mem::replace(account, Account { held, ..then })
}

/// The agent and the turn a model call belongs to.
#[derive(Clone)]
pub(crate) struct Payer {
    pub agent: AgentId,
    pub turn: TurnId,
}

/// The limits that hold for a call, narrowest first.
struct Bounds<'a> {
    agent: &'a AgentSettings,
    limits: &'a Limits,
    teams: Vec<TeamBound>,
    living: &'a AgentMap<AgentId>,
    above: Vec<AgentId>,
}

/// The limit of an agent with everybody below it.
struct TeamBound {
    agent: AgentName,
    caps: Caps,
    members: Vec<AgentId>,
}

impl<'a> Bounds<'a> {
    fn new(active: &'a Snapshot, agent: &'a AgentSettings) -> Self {
        let teams = active.settings.teams_of(agent).into_iter().map(|(agent, caps)| {
            let members = active.members(&agent);
            TeamBound { agent, caps, members }
        });
        let (teams, above) = (teams.collect(), active.above(agent));
        Self { agent, limits: &active.settings.limits, teams, living: &active.ids, above }
    }

    /// Each with what it has come to.
    fn accounts(&self, books: &Books, payer: &Payer) -> Vec<(Scope<'_>, Caps, Account)> {
        let (name, own) = (self.agent.name.as_str(), &self.agent.budgets);
        let turn = books.turns.get(&payer.turn).copied().unwrap_or_default();
        let agent = books.agents.get(&payer.agent).copied().unwrap_or_default();
        let mut accounts = vec![
            (Scope::Turn(Some(name)), own.turn, turn),
            (Scope::Turn(None), self.limits.per_turn, turn),
            (Scope::Agent(name), own.day, agent),
        ];
        for team in &self.teams {
            let account = books.team(&team.members, self.living);
            accounts.push((Scope::Team(team.agent.as_str()), team.caps, account));
        }
        accounts.push((Scope::Hive, self.limits.day_caps(), books.hive));
        accounts
    }

    fn any(&self) -> bool {
        let own = &self.agent.budgets;
        let caps = [own.turn, self.limits.per_turn, own.day, self.limits.day_caps()];
        !self.teams.is_empty() || caps.iter().any(|caps| !caps.is_none())
    }
}

impl Ledger {
    pub async fn load(
        store: Store,
        snapshot: Arc<SnapshotCell>,
        meters: Arc<Meters>,
        now: Millis,
    ) -> Result<Self, StoreError> {
        let day = spend::day_of(now);
        let read = store.read(async |conn| {
            let used = skep_store::spend::of_day(conn, day).await?;
            let mut above = HashMap::new();
            for Used { agent, .. } in &used {
                above.insert(*agent, skep_store::spend::above(conn, *agent).await?);
            }
            Ok((used, above))
        });
        let (used, above) = read.await?;
        let mut books = Books { day, above, ..Books::default() };
        for used in used {
            for account in [&mut books.hive, books.agents.entry(used.agent).or_default()] {
                account.spent.join(&used.spent);
                account.unsettled.join(&used.unsettled);
            }
        }
        Ok(Self { books: Mutex::new(books), freed: Notify::new(), store, snapshot, meters })
    }

    /// As vendors counted it.
    pub fn hive(&self, now: Millis) -> Account {
        self.books(now).hive
    }

    pub fn agents(&self, now: Millis) -> HashMap<AgentId, Account> {
        self.books(now).agents.clone()
    }

    /// Of these agents together.
    pub fn team(&self, members: &[AgentId], now: Millis) -> Account {
        self.books(now).team(members, &self.snapshot.current().ids)
    }

    /// Opens a turn's own account, with what it used before this lease.
    pub(crate) fn begin(&self, turn: &TurnId, usage: &Usage) {
        let mut account = Account::default();
        if usage.total_tokens > 0 {
            account.spent.add(usage);
        }
        self.books(clock::now_ms()).turns.insert(turn.clone(), account);
    }

    pub(crate) fn end(&self, turn: &TurnId) {
        self.books(clock::now_ms()).turns.remove(turn);
    }

    fn try_hold(
        &self,
        bounds: &Bounds<'_>,
        payer: &Payer,
        need: &Need,
        now: Millis,
    ) -> Result<(), Over> {
        let mut books = self.books(now);
        for (scope, caps, account) in bounds.accounts(&books, payer) {
            budget::admit(scope, &caps, &account, need, now)?;
        }
        books.above.insert(payer.agent, bounds.above.clone());
        books.each(Some(payer), |account| account.held.take(need));
        Ok(())
    }

    /// Gives back what was held and counts what was used instead, in one step.
    fn settle(&self, payer: Option<&Payer>, need: &Need, used: Option<&Usage>, exact: bool) {
        self.books(clock::now_ms()).each(payer, |account| {
            account.held.give_back(need);
            match used {
                Some(usage) if exact => account.spent.add(usage),
                Some(usage) => account.unsettled.add(usage),
                None => {}
            }
        });
        self.freed.notify_waiters();
    }

    /// A call of the model was answered.
    pub(crate) fn note_answer(&self, meta: &Meta) {
        self.meters.call(meta);
    }

    /// What people are to be told now, each once a day.
    pub(crate) fn warnings(&self, agent: &AgentSettings, payer: &Payer) -> Vec<String> {
        let active = self.snapshot.current();
        let bounds = Bounds::new(&active, agent);
        if !bounds.any() {
            return Vec::new();
        }
        let mut books = self.books(clock::now_ms());
        let mut told = Vec::new();
        for (scope, caps, account) in bounds.accounts(&books, payer) {
            let key = match scope {
                Scope::Turn(_) => format!("turn {}", payer.turn),
                Scope::Agent(_) => format!("agent {}", payer.agent.0),
                Scope::Team(agent) => format!("team {agent}"),
                Scope::Hive => String::new(),
            };
            if let Some(text) = budget::warning(scope, &caps, &account)
                && books.warned.insert(key)
            {
                told.push(text);
            }
        }
        told
    }

    /// Whether anything limits the calls of an agent.
    pub(crate) fn is_limited(&self, agent: &AgentSettings) -> bool {
        Bounds::new(&self.snapshot.current(), agent).any()
    }

    /// What the calls of a turn may use.
    pub(crate) fn allowance(
        self: &Arc<Self>,
        agent: &Arc<AgentSettings>,
        payer: Payer,
    ) -> Allowance {
        let (ledger, agent) = (Arc::clone(self), Arc::clone(agent));
        Allowance::new(move |profile, request| -> BoxFuture<'static, Result<Hold, Over>> {
            let (ledger, agent) = (Arc::clone(&ledger), Arc::clone(&agent));
            let call = Call { ledger, agent, payer: payer.clone() };
            Box::pin(call.hold(Arc::clone(profile), Arc::clone(request)))
        })
    }

    /// What a call that belongs to no turn may use. It counts until the process ends: no row of
    /// usage is without an agent.
    pub fn hold_try(
        self: &Arc<Self>,
        profile: &Arc<Profile>,
        request: &ModelRequest,
    ) -> Result<Hold, Over> {
        let caps = self.snapshot.current().settings.limits.day_caps();
        let (prompt, now) = (count::of_request(request), clock::now_ms());
        let need = Need::new(prompt, request.max_output_tokens.into(), profile.price.as_ref());
        let mut books = self.books(now);
        budget::admit(Scope::Hive, &caps, &books.hive, &need, now)
            .inspect_err(|over| self.meters.over_budget(over.code))?;
        books.each(None, |account| account.held.take(&need));
        Ok(held(Arc::clone(self), None, Arc::clone(profile), prompt, need))
    }

    /// A call that may have been charged, and nobody will ever tell.
    pub(crate) fn add_unsettled(&self, payer: &Payer, usage: &Usage) {
        self.books(clock::now_ms()).each(Some(payer), |account| account.unsettled.add(usage));
    }

    fn keep_unsettled(&self, agent: AgentId, profile: &Profile, usage: Usage) {
        let (profile, now) = (profile.name.clone(), clock::now_ms());
        // Written with the next commit; nobody waits for it.
        drop(self.store.submit(Unsettled { agent, profile, usage, now }));
    }

    fn keep_unusable(&self, agent: AgentId, meta: Meta) {
        drop(self.store.submit(Unusable { agent, meta, now: clock::now_ms() }));
    }

    fn books(&self, now: Millis) -> MutexGuard<'_, Books> {
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        books.turn_to(now);
        books
    }
}

/// A call that is about to be made, or is under way.
struct Call {
    ledger: Arc<Ledger>,
    agent: Arc<AgentSettings>,
    payer: Payer,
}

impl Call {
    /// Waits where the limits would leave room but for what other calls hold.
    async fn hold(self, profile: Arc<Profile>, request: Arc<ModelRequest>) -> Result<Hold, Over> {
        let ledger = Arc::clone(&self.ledger);
        let until = tokio::time::Instant::now() + WAIT;
        let mut counted = None;
        loop {
            let freed = ledger.freed.notified();
            tokio::pin!(freed);
            // Heard from here on, also what is given back while the limits are looked at.
            freed.as_mut().enable();
            let active = ledger.snapshot.current();
            // The limits are those that hold now, not those of the turn's beginning.
            let agent = active.agent(self.payer.agent, &self.agent.name);
            let agent = agent.unwrap_or_else(|_| self.agent.clone());
            let bounds = Bounds::new(&active, &agent);
            let prompt = match counted {
                Some(counted) => counted,
                None if bounds.any() => *counted.insert(count::of_request(&request)),
                // Nothing to compare with.
                None => 0,
            };
            let room = u64::from(request.max_output_tokens);
            let need = Need::new(prompt, room, profile.price.as_ref());
            let over = match ledger.try_hold(&bounds, &self.payer, &need, clock::now_ms()) {
                Ok(()) => {
                    return Ok(held(Arc::clone(&ledger), Some(self.payer), profile, prompt, need));
                }
                Err(over) => over,
            };
            if !over.by_holds || tokio::time::timeout_at(until, freed).await.is_err() {
                ledger.meters.over_budget(over.code);
                return Err(over);
            }
        }
    }
}

fn held(
    ledger: Arc<Ledger>,
    payer: Option<Payer>,
    profile: Arc<Profile>,
    prompt: u64,
    need: Need,
) -> Hold {
    Hold::new(move |ended| {
        let payer = payer.as_ref();
        match ended {
            Settlement::Answered(usage) => ledger.settle(payer, &need, Some(&usage), true),
            Settlement::Unusable(meta) => {
                ledger.settle(payer, &need, Some(&meta.usage), true);
                if let Some(payer) = payer {
                    ledger.keep_unusable(payer.agent, *meta);
                }
            }
            Settlement::Refused => ledger.settle(payer, &need, None, true),
            // Nobody told what it used: the whole request, and as much as was heard.
            Settlement::Untold { heard } => {
                let usage = Usage::new(prompt, heard, 0, 0).priced(profile.price.as_ref());
                ledger.settle(payer, &need, Some(&usage), false);
                if let Some(payer) = payer {
                    ledger.keep_unsettled(payer.agent, &profile, usage);
                }
            }
        }
    })
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
        let payer = Payer { agent: AgentId(1), turn: TurnId("t".to_owned()) };
        let need = Need { tokens: 7, cost: None };
        books.each(Some(&payer), |account| account.held.take(&need));
        let spend = |books: &mut Books, tokens| {
            let usage = Usage::new(tokens, 0, 0, 0);
            books.each(Some(&payer), |account| account.spent.add(&usage));
            books.each(Some(&payer), |account| account.unsettled.add(&usage));
        };
        let jumps = [(100, 5, 5), (101, 3, 3), (100, 1, 6), (99, 2, 2), (101, 1, 4), (100, 0, 6)];
        for (day, more, tokens) in jumps {
            books.turn_to(day * DAY_MS + 1);
            spend(&mut books, more);
            let agent = books.agents[&payer.agent];
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

    #[test]
    fn what_a_removed_agent_used_stays_with_those_above_it() {
        let mut books = Books { day: 100, ..Books::default() };
        for agent in 1..=4 {
            let payer = Payer { agent: AgentId(agent), turn: TurnId("t".to_owned()) };
            let usage = Usage::new(10, 0, 0, 0);
            books.each(Some(&payer), |account| account.spent.add(&usage));
        }
        // 1 leads 2, who leads 3; 4 is nobody's.
        books.above.insert(AgentId(2), vec![AgentId(1)]);
        books.above.insert(AgentId(3), vec![AgentId(2), AgentId(1)]);
        let names = |ids: &[i64]| {
            let named = ids.iter().map(|id| (AgentName(format!("a{id}")), AgentId(*id)));
            named.collect::<AgentMap<AgentId>>()
        };
        let team = |members: &[i64], living: &[i64]| {
            let members: Vec<AgentId> = members.iter().copied().map(AgentId).collect();
            books.team(&members, &names(living)).spent.tokens
        };
        assert_eq!(team(&[1, 2, 3], &[1, 2, 3, 4]), 30);
        assert_eq!(team(&[1, 2], &[1, 2, 4]), 30, "3 is removed");
        assert_eq!(team(&[2], &[1, 2, 4]), 20);
        assert_eq!(team(&[1], &[1, 4]), 30, "2 and 3 are removed");
        assert_eq!(team(&[1, 2], &[1, 2, 3, 4]), 20, "3 has another place");
    }
}
