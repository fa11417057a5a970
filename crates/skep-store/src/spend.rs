//! What model calls used, summed by day, agent and profile in the commit that records them.

use skep_core::ids::AgentId;
use skep_core::message::Meta;
use skep_core::money::Money;
use skep_core::spend::Spend;

use crate::conn::{Conn, Row};
use crate::error::SqlError;
use crate::tx::Tx;

/// Adds a call. What was cut off before its end was counted by nobody.
pub(crate) async fn record(
    tx: &mut Tx<'_>,
    agent: AgentId,
    day: i64,
    meta: &Meta,
) -> Result<(), SqlError> {
    if meta.api.is_empty() {
        return Ok(());
    }
    let usage = &meta.usage;
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let unpriced = usage.cost.is_none();
    let upsert = "INSERT INTO spend (day, agent, profile, calls, input, output, cache_read, \
                  cache_write, cost, unpriced_calls, unpriced_tokens) \
                  VALUES ($1, $2, $3, 1, $4, $5, $6, $7, $8, $9, $10) \
                  ON CONFLICT (day, agent, profile) DO UPDATE SET calls = spend.calls + 1, \
                  input = spend.input + excluded.input, output = spend.output + excluded.output, \
                  cache_read = spend.cache_read + excluded.cache_read, \
                  cache_write = spend.cache_write + excluded.cache_write, \
                  cost = spend.cost + excluded.cost, \
                  unpriced_calls = spend.unpriced_calls + excluded.unpriced_calls, \
                  unpriced_tokens = spend.unpriced_tokens + excluded.unpriced_tokens";
    let args = [
        day.into(),
        agent.0.into(),
        meta.profile.as_deref().unwrap_or_default().into(),
        number(usage.input).into(),
        number(usage.output).into(),
        number(usage.cache_read).into(),
        number(usage.cache_write).into(),
        usage.cost.unwrap_or(Money::ZERO).0.into(),
        unpriced.into(),
        if unpriced { number(usage.total_tokens) } else { 0 }.into(),
    ];
    tx.conn.run(upsert, &args).await?;
    Ok(())
}

/// The sums of a day.
pub async fn of_day(conn: &mut Conn, day: i64) -> Result<Spend, SqlError> {
    let select = "SELECT sum(calls), sum(input + output + cache_read + cache_write), sum(cost), \
                  sum(unpriced_calls), sum(unpriced_tokens) FROM spend WHERE day = $1";
    let row = conn.row(select, &[day.into()]).await?;
    row.map_or_else(|| Ok(Spend::default()), |row| decode(&row))
}

fn decode(row: &Row) -> Result<Spend, SqlError> {
    let number = |column| -> Result<u64, SqlError> {
        Ok(row.int_opt(column)?.and_then(|value| u64::try_from(value).ok()).unwrap_or(0))
    };
    Ok(Spend {
        calls: number(0)?,
        tokens: number(1)?,
        cost: Money(row.int_opt(2)?.unwrap_or(0)),
        unpriced_calls: number(3)?,
        unpriced_tokens: number(4)?,
    })
}
