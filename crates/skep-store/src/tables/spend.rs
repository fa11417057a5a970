//! What model calls used, summed by hour, agent, profile and model in the commit that records them.

use std::ops::Range;

use skep_core::Millis;
use skep_core::ids::{AgentId, AgentName, Token, TurnId};
use skep_core::message::{Message, Meta, Role, Usage};
use skep_core::money::Money;
use skep_core::spend::{HOURS, Span, Spend, hour_of};
use skep_db::{Addition, Cell, Conn, Refusal, Run, SqlError, Tx, args, record};

use crate::tables::journal::Leased;

/// Adds the model calls among new rows of a turn; a turn counts with its first answer.
pub(crate) async fn record(
    tx: &mut Tx<'_>,
    leased: &Leased<'_>,
    rows: &[Message],
) -> Result<(), SqlError> {
    let mut first = leased.steps == 0;
    for row in rows {
        let Some(meta) = &row.body.meta else { continue };
        let answer = row.body.role == Role::Assistant;
        record_call(tx, (leased.agent, leased.now), meta, first && answer).await?;
        first = first && !answer;
    }
    Ok(())
}

/// Adds a call. No vendor counts a call that was cut off.
async fn record_call(
    tx: &mut Tx<'_>,
    (agent, now): (AgentId, Millis),
    meta: &Meta,
    first: bool,
) -> Result<(), SqlError> {
    if meta.api.is_empty() {
        return Ok(());
    }
    let usage = &meta.usage;
    let unpriced = usage.cost.is_none();
    let upsert = "INSERT INTO usage_hours (hour, agent, profile, model, calls, turns, input, \
                  output, cache_read, cache_write, cost, unpriced_calls, unpriced_tokens) \
                  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) \
                  ON CONFLICT (hour, agent, profile, model) DO UPDATE SET \
                  calls = usage_hours.calls + excluded.calls, \
                  turns = usage_hours.turns + excluded.turns, \
                  input = usage_hours.input + excluded.input, \
                  output = usage_hours.output + excluded.output, \
                  cache_read = usage_hours.cache_read + excluded.cache_read, \
                  cache_write = usage_hours.cache_write + excluded.cache_write, \
                  cost = usage_hours.cost + excluded.cost, \
                  unpriced_calls = usage_hours.unpriced_calls + excluded.unpriced_calls, \
                  unpriced_tokens = usage_hours.unpriced_tokens + excluded.unpriced_tokens";
    // More than a column holds is the most it holds.
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let profile = meta.profile.clone().unwrap_or_default();
    tx.add(Addition {
        sql: upsert,
        key: vec![
            Cell::Int(hour_of(now)),
            Cell::Int(agent.0),
            Cell::Text(profile),
            Cell::Text(meta.model.clone()),
        ],
        sums: vec![
            1,
            first.into(),
            number(usage.input),
            number(usage.output),
            number(usage.cache_read),
            number(usage.cache_write),
            usage.cost.unwrap_or(Money::ZERO).0,
            unpriced.into(),
            if unpriced { number(usage.total_tokens) } else { 0 },
        ],
        newest: None,
    })
    .await
}

/// What one agent used in a day.
pub struct Used {
    pub agent: AgentId,
    pub spent: Spend,
    /// Calls whose usage no vendor reported: our own estimate.
    pub unsettled: Spend,
}

/// The sums of a day, by agent.
pub async fn of_day(conn: &mut Conn, day: i64) -> Result<Vec<Used>, SqlError> {
    let spent = "SELECT sum(u.calls), sum(u.input + u.output + u.cache_read + u.cache_write), \
                 sum(u.cost), sum(u.unpriced_calls), sum(u.unpriced_tokens), u.agent \
                 FROM usage_hours u WHERE u.hour >= $1 AND u.hour < $2 GROUP BY u.agent";
    let unsettled = "SELECT sum(u.calls), sum(u.tokens), sum(u.cost), sum(u.unpriced_calls), \
                     sum(u.unpriced_tokens), u.agent FROM unsettled_hours u \
                     WHERE u.hour >= $1 AND u.hour < $2 GROUP BY u.agent";
    let (first, end) = (day * HOURS, (day + 1) * HOURS);
    let args = args![first, end];
    let mut used = Vec::new();
    for (spent, agent) in conn.list(spent, &args).await? {
        used.push(Used { agent, spent, unsettled: Spend::default() });
    }
    for (unsettled, agent) in conn.list(unsettled, &args).await? {
        used.push(Used { agent, spent: Spend::default(), unsettled });
    }
    Ok(used)
}

/// Everybody above an agent, also above one that was removed; the next one first.
pub async fn above(conn: &mut Conn, agent: AgentId) -> Result<Vec<AgentId>, SqlError> {
    let mut above: Vec<AgentId> = Vec::new();
    let mut at = agent;
    let select = "SELECT parent_id FROM agents WHERE id = $1";
    while let Some(Some(parent)) = conn.find::<Option<AgentId>>(select, &args![at]).await? {
        if parent == agent || above.contains(&parent) {
            break;
        }
        above.push(parent);
        at = parent;
    }
    Ok(above)
}

/// Adds a call whose answer no row carries.
pub struct Unusable {
    pub agent: AgentId,
    pub meta: Meta,
    pub now: Millis,
}

impl Run for Unusable {
    type Out = ();

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<(), Refusal> {
        Ok(record_call(tx, (self.agent, self.now), &self.meta, false).await?)
    }
}

/// Charges a call that broke off with what it may have used.
pub struct Unsettled {
    pub agent: AgentId,
    pub profile: String,
    pub usage: Usage,
    pub now: Millis,
}

impl Run for Unsettled {
    type Out = ();

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<(), Refusal> {
        Ok(add_unsettled(tx, self.agent, &self.profile, &self.usage, self.now).await?)
    }
}

/// The same for the call a turn was in when its process ended; answers whether there was one, and
/// that once.
#[derive(Clone)]
pub struct ChargeLost {
    pub turn: TurnId,
    pub token: Token,
    pub agent: AgentId,
    pub profile: String,
    pub usage: Usage,
    pub now: Millis,
}

impl Run for ChargeLost {
    type Out = bool;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<bool, Refusal> {
        let found = "UPDATE turns SET lost = 0 WHERE id = $1 AND token = $2 AND lost = 1";
        if tx.conn.run(found, &args![self.turn, self.token]).await? == 0 {
            return Ok(false);
        }
        add_unsettled(tx, self.agent, &self.profile, &self.usage, self.now).await?;
        Ok(true)
    }
}

async fn add_unsettled(
    tx: &mut Tx<'_>,
    agent: AgentId,
    profile: &str,
    usage: &Usage,
    now: Millis,
) -> Result<(), SqlError> {
    let unpriced = usage.cost.is_none();
    let (hour, cost, tokens) =
        (hour_of(now), usage.cost.unwrap_or(Money::ZERO), usage.total_tokens);
    let unpriced_tokens = if unpriced { tokens } else { 0 };
    let upsert = "INSERT INTO unsettled_hours (hour, agent, profile, calls, tokens, cost, \
                  unpriced_calls, unpriced_tokens) VALUES ($1, $2, $3, 1, $4, $5, $6, $7) \
                  ON CONFLICT (hour, agent, profile) DO UPDATE SET \
                  calls = unsettled_hours.calls + 1, \
                  tokens = unsettled_hours.tokens + excluded.tokens, \
                  cost = unsettled_hours.cost + excluded.cost, \
                  unpriced_calls = unsettled_hours.unpriced_calls + excluded.unpriced_calls, \
                  unpriced_tokens = unsettled_hours.unpriced_tokens + excluded.unpriced_tokens";
    let args = args![hour, agent, profile, tokens, cost, unpriced, unpriced_tokens];
    tx.conn.run(upsert, &args).await?;
    Ok(())
}

/// What one agent used of one model in one span of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageRow {
    /// Hours or days since the epoch, as it was asked for.
    pub span: i64,
    pub agent: AgentName,
    pub profile: String,
    /// Empty for sums from before models were told apart.
    pub model: String,
    pub turns: u64,
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub spend: Spend,
}

record! { UsageRow {
    span, agent, profile, model, turns, input, output, cache_read, cache_write, spend,
} }

/// The sums of the hours in a range, by hour or by day, oldest first.
pub async fn usage(
    conn: &mut Conn,
    hours: Range<i64>,
    by: Span,
    agent: Option<AgentId>,
) -> Result<Vec<UsageRow>, SqlError> {
    let select = "SELECT u.hour / $3 AS span, a.name, u.profile, u.model, sum(u.turns), \
                  sum(u.input), sum(u.output), sum(u.cache_read), sum(u.cache_write), \
                  sum(u.calls), sum(u.input + u.output + u.cache_read + u.cache_write), \
                  sum(u.cost), sum(u.unpriced_calls), sum(u.unpriced_tokens) \
                  FROM usage_hours u JOIN agents a ON a.id = u.agent \
                  WHERE u.hour >= $1 AND u.hour < $2 AND ($4 IS NULL OR u.agent = $4) \
                  GROUP BY span, u.agent, u.profile, u.model ORDER BY span, u.agent, u.profile, \
                  u.model";
    conn.list(select, &args![hours.start, hours.end, by.hours(), agent]).await
}
