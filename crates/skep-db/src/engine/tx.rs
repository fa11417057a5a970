//! What a command runs on: the writer's connection, the counters, and the events and frames to
//! publish once the commit is durable.

use skep_core::audit::Head;
use skep_core::event::Event;
use skep_core::frame::Frame;

use crate::engine::additions::{self, Addition};
use crate::engine::audit_chain;
use crate::engine::command::Schema;
use crate::engine::conn::Conn;
use crate::engine::dialect;
use crate::engine::error::SqlError;
use crate::engine::record::args;

/// Handed to `notify` after the commit, in commit order, before the callers are answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Committed {
    pub events: Vec<Event>,
    pub frames: Vec<Frame>,
}

pub struct Tx<'c> {
    pub conn: &'c mut Conn,
    gathered: &'c mut Gathered,
}

impl<'c> Tx<'c> {
    pub(crate) fn new(conn: &'c mut Conn, gathered: &'c mut Gathered) -> Self {
        Self { conn, gathered }
    }

    /// Its row is written with the batch and gets its `seq` then; watchers hear of it after the
    /// commit.
    pub fn event(&mut self, event: Event) {
        self.gathered.told.events.push(event);
    }

    /// Adds numbers to a row. It is written with the batch, once for all of its commands that add
    /// to the same row; who reads such a row in a command asks for [`Tx::settle`] first.
    pub async fn add(&mut self, addition: Addition) -> Result<(), SqlError> {
        match self.gathered.apart {
            Apart::Yes => addition.write(self.conn).await,
            Apart::No => {
                self.gathered.additions.push(addition);
                Ok(())
            }
        }
    }

    /// Writes what was added so far.
    pub async fn settle(&mut self) -> Result<(), SqlError> {
        self.gathered.write_additions(self.conn).await
    }

    /// Tells the frame's channel after the commit; its row is the command's business.
    pub fn frame(&mut self, frame: Frame) {
        self.gathered.told.frames.push(frame);
    }

    /// The newest row of the audit trail, which the next one goes behind.
    pub async fn next_trail(&mut self) -> Result<Head, SqlError> {
        Ok(self.gathered.counters.trail)
    }

    pub fn set_trail(&mut self, trail: Head) {
        self.gathered.counters.trail = trail;
    }

    /// The next place in the order of items.
    pub async fn next_ord(&mut self) -> Result<i64, SqlError> {
        self.gathered.counters.ord += 1;
        Ok(self.gathered.counters.ord)
    }
}

/// The highest numbers given so far. Commands ask their transaction for the next one, which may ask
/// the database. Here they live in memory between commits, because the writer is the only one who
/// gives them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub seq: i64,
    pub ord: i64,
    pub trail: Head,
}

impl Counters {
    /// `known`: the newest audit row of which it is known that it was written. The next one goes
    /// behind it even where somebody has taken it away.
    pub(crate) async fn load(
        conn: &mut Conn,
        schema: &Schema,
        known: Head,
    ) -> Result<Self, SqlError> {
        let (seq, ord): (Option<i64>, Option<i64>) =
            conn.one(schema.counters, &[], "the counters have no row").await?;
        let (seq, ord) = (seq.unwrap_or(0), ord.unwrap_or(0));
        let found = match schema.audited {
            true => audit_chain::newest(conn).await?,
            false => Head::default(),
        };
        let trail = if known.id > found.id { known } else { found };
        Ok(Self { seq, ord, trail })
    }
}

/// Whether each command of a batch can be undone by itself. That has its price: the database keeps
/// every page as it was before each of them, and nothing is written for several of them at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Apart {
    No,
    Yes,
}

/// What the commands of the running batch have asked for so far.
pub(crate) struct Gathered {
    pub counters: Counters,
    apart: Apart,
    additions: Vec<Addition>,
    told: Committed,
}

/// A point to go back to when a command is refused.
pub(crate) struct Mark {
    counters: Counters,
    additions: usize,
    events: usize,
    frames: usize,
}

impl Gathered {
    pub(crate) fn new(counters: Counters, apart: Apart) -> Self {
        Self { counters, apart, additions: Vec::new(), told: Committed::default() }
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark {
            counters: self.counters,
            additions: self.additions.len(),
            events: self.told.events.len(),
            frames: self.told.frames.len(),
        }
    }

    pub(crate) fn back_to(&mut self, mark: &Mark) {
        self.counters = mark.counters;
        self.additions.truncate(mark.additions);
        self.told.events.truncate(mark.events);
        self.told.frames.truncate(mark.frames);
    }

    pub(crate) async fn write_additions(&mut self, conn: &mut Conn) -> Result<(), SqlError> {
        for addition in additions::joined(self.additions.drain(..)) {
            addition.write(conn).await?;
        }
        Ok(())
    }

    /// Numbers the batch's events and writes their rows, many to a statement.
    pub(crate) async fn write_events(&mut self, conn: &mut Conn) -> Result<(), SqlError> {
        for event in &mut self.told.events {
            self.counters.seq += 1;
            event.seq = Some(self.counters.seq);
        }
        for chunk in self.told.events.chunks(dialect::EVENTS_PER_INSERT) {
            let mut bodies = Vec::with_capacity(chunk.len());
            for event in chunk {
                let body = serde_json::to_string(event)
                    .map_err(|error| SqlError::decode(format!("event as JSON: {error}")))?;
                bodies.push(body);
            }
            let mut args = Vec::with_capacity(chunk.len() * dialect::EVENT_COLUMNS);
            for (event, body) in chunk.iter().zip(&bodies) {
                args.extend(args![event.seq, event.at, event.agent_id, *body]);
            }
            conn.run(dialect::insert_events(chunk.len()), &args).await?;
        }
        Ok(())
    }

    pub(crate) fn into_told(self) -> Committed {
        self.told
    }
}
