//! Between our types and the database: what a statement is given, and what its rows are read as.

use serde_json::Value as Json;
use skep_core::approval::{ApprovalKind, ApprovalState, Scope};
use skep_core::audit::{AuditKind, Seal};
use skep_core::cause::{Cause, ItemOptions};
use skep_core::compaction::Reason;
use skep_core::decision::Decision;
use skep_core::engine::RetryCode;
use skep_core::event::{CallState, CancelReason, Event, ItemState, Resolution, TurnState};
use skep_core::frame::{FrameKind, FrameState};
use skep_core::ids::{
    AgentId, AgentName, ApprovalId, CallId, ChannelId, ItemId, LaneId, MessageId, NodeName,
    Principal, SessionId, SessionKey, Token, TurnId,
};
use skep_core::inbound::AckState;
use skep_core::message::{self, Body, StopReason};
use skep_core::money::Money;
use skep_core::policy::Class;
use skep_core::role::Role;
use skep_core::settings::{Think, Wanted};

use crate::engine::conn::{Cell, Row, Value};
use crate::engine::error::SqlError;

/// The arguments of a statement: `args![turn, token, now]`.
#[macro_export]
macro_rules! args {
    ($($value:expr),* $(,)?) => { [$($crate::ToValue::to_value(&$value)),*] };
}
pub(crate) use args;

/// Reads these fields from the columns of a row, in this order; what follows has no column.
#[macro_export]
macro_rules! record {
    ($name:ident { $($field:ident),+ $(,)? $(; $rest:ident = $value:expr)? }) => {
        impl $crate::Record for $name {
            fn read(
                row: &mut $crate::Columns,
            ) -> Result<Self, $crate::SqlError> {
                Ok(Self { $($field: row.take()?,)+ $($rest: $value)? })
            }
        }
    };
}
pub(crate) use record;

/// What a statement can be given.
pub trait ToValue {
    fn to_value(&self) -> Value<'_>;
}

/// What is read from one column.
pub trait Column: Sized {
    /// Nothing where the column holds something else.
    fn from_cell(cell: Cell) -> Option<Self>;
}

/// What is read from the next columns of a row.
pub trait Record: Sized {
    fn read(row: &mut Columns) -> Result<Self, SqlError>;

    fn of(row: Row) -> Result<Self, SqlError> {
        Self::read(&mut Columns::of(row))
    }
}

/// The columns of a row that are not read yet.
pub struct Columns {
    cells: std::vec::IntoIter<Cell>,
    /// Of the next one.
    number: usize,
}

impl Columns {
    pub fn of(row: Row) -> Self {
        Self { cells: row.into_cells().into_iter(), number: 0 }
    }

    pub fn take<T: Record>(&mut self) -> Result<T, SqlError> {
        T::read(self)
    }
}

impl<T: Column> Record for T {
    fn read(row: &mut Columns) -> Result<Self, SqlError> {
        let number = row.number;
        row.number += 1;
        let cell = row.cells.next();
        let cell = cell.ok_or_else(|| SqlError::decode(format!("there is no column {number}")))?;
        let wrong = || {
            let wanted = std::any::type_name::<T>();
            SqlError::decode(format!("column {number} holds no {wanted}"))
        };
        T::from_cell(cell).ok_or_else(wrong)
    }
}

impl Record for Row {
    fn read(row: &mut Columns) -> Result<Self, SqlError> {
        Ok(Self::from_cells(row.cells.by_ref().collect()))
    }
}

macro_rules! tuples {
    ($(($($part:ident),+))+) => {$(
        impl<$($part: Record),+> Record for ($($part,)+) {
            fn read(row: &mut Columns) -> Result<Self, SqlError> {
                Ok(($(row.take::<$part>()?,)+))
            }
        }
    )+};
}
tuples! { (A, B) (A, B, C) (A, B, C, D) (A, B, C, D, E) }

/// Two columns that say something only together.
impl<A: Column, B: Column> Record for Option<(A, B)> {
    fn read(row: &mut Columns) -> Result<Self, SqlError> {
        let (first, second): (Option<A>, Option<B>) = row.take()?;
        Ok(first.zip(second))
    }
}

/// What an item is there for: its columns `kind` and `cause`.
impl Record for Cause {
    fn read(row: &mut Columns) -> Result<Self, SqlError> {
        let (kind, more): (String, Option<String>) = row.take()?;
        Self::read(&kind, more.as_deref()).map_err(|error| SqlError::decode(error.to_string()))
    }
}

impl Column for i64 {
    fn from_cell(cell: Cell) -> Option<Self> {
        match cell {
            Cell::Int(value) => Some(value),
            _ => None,
        }
    }
}

/// A count. What cannot be one counts as nothing, and so does a sum over no rows.
impl Column for u64 {
    fn from_cell(cell: Cell) -> Option<Self> {
        let count = <Option<i64> as Column>::from_cell(cell)?;
        Some(count.and_then(|count| Self::try_from(count).ok()).unwrap_or(0))
    }
}

impl Column for bool {
    fn from_cell(cell: Cell) -> Option<Self> {
        i64::from_cell(cell).map(|value| value != 0)
    }
}

impl Column for String {
    fn from_cell(cell: Cell) -> Option<Self> {
        match cell {
            Cell::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl Column for Vec<u8> {
    fn from_cell(cell: Cell) -> Option<Self> {
        match cell {
            Cell::Blob(bytes) => Some(bytes),
            _ => None,
        }
    }
}

impl<T: Column> Column for Option<T> {
    fn from_cell(cell: Cell) -> Option<Self> {
        match cell {
            Cell::Null => Some(None),
            cell => T::from_cell(cell).map(Some),
        }
    }
}

/// A hash.
impl Column for [u8; 32] {
    fn from_cell(cell: Cell) -> Option<Self> {
        Vec::from_cell(cell)?.try_into().ok()
    }
}

macro_rules! json {
    ($($name:ty),+) => {$(
        impl Column for $name {
            fn from_cell(cell: Cell) -> Option<Self> {
                serde_json::from_str(&<String as Column>::from_cell(cell)?).ok()
            }
        }
    )+};
}
json! { Json, Body, Event, Vec<String> }

/// As a word, without the quotes of JSON.
impl Column for message::Role {
    fn from_cell(cell: Cell) -> Option<Self> {
        serde_json::from_value(<String as Column>::from_cell(cell)?.into()).ok()
    }
}

impl Column for Decision {
    fn from_cell(cell: Cell) -> Option<Self> {
        Self::read(&<String as Column>::from_cell(cell)?).ok()
    }
}

/// An item without options has none.
impl Column for ItemOptions {
    fn from_cell(cell: Cell) -> Option<Self> {
        match cell {
            Cell::Null => Some(Self::default()),
            cell => serde_json::from_str(&<String as Column>::from_cell(cell)?).ok(),
        }
    }
}

macro_rules! texts {
    ($($name:ident),+ $(,)?) => {$(
        impl Column for $name {
            fn from_cell(cell: Cell) -> Option<Self> {
                <String as Column>::from_cell(cell).map(Self)
            }
        }
        impl ToValue for $name {
            fn to_value(&self) -> Value<'_> {
                Value::Text(self.as_str())
            }
        }
    )+};
}
texts! {
    AgentName, ApprovalId, CallId, ChannelId, ItemId, MessageId, NodeName, Principal, SessionId,
    SessionKey, TurnId,
}

macro_rules! numbers {
    ($($name:ident),+) => {$(
        impl Column for $name {
            fn from_cell(cell: Cell) -> Option<Self> {
                i64::from_cell(cell).map(Self)
            }
        }
        impl ToValue for $name {
            fn to_value(&self) -> Value<'_> {
                Value::Int(self.0)
            }
        }
    )+};
}
numbers! { AgentId, LaneId, Token, Money }

macro_rules! words {
    ($($name:ident),+ $(,)?) => {$(
        impl Column for $name {
            fn from_cell(cell: Cell) -> Option<Self> {
                Self::parse(&<String as Column>::from_cell(cell)?)
            }
        }
        impl ToValue for $name {
            fn to_value(&self) -> Value<'_> {
                Value::Text(self.as_str())
            }
        }
    )+};
}
words! {
    AckState, ApprovalKind, ApprovalState, AuditKind, CallState, CancelReason, Class, FrameKind,
    FrameState, ItemState, Reason, Resolution, RetryCode, Role, Scope, StopReason, Think, TurnState,
    Wanted,
}

macro_rules! plain {
    ($($name:ty: $value:ident => $made:expr),+ $(,)?) => {$(
        impl ToValue for $name {
            fn to_value(&self) -> Value<'_> {
                let $value = self;
                $made
            }
        }
    )+};
}
plain! {
    i64: number => Value::Int(*number),
    u32: number => Value::Int((*number).into()),
    // More than a column holds is the most it holds.
    u64: count => Value::Int(i64::try_from(*count).unwrap_or(i64::MAX)),
    usize: count => Value::Int(i64::try_from(*count).unwrap_or(i64::MAX)),
    bool: truth => Value::Int((*truth).into()),
    str: text => Value::Text(text),
    String: text => Value::Text(text),
    [u8]: bytes => Value::Blob(bytes),
    [u8; 32]: bytes => Value::Blob(bytes),
    Vec<u8>: bytes => Value::Blob(bytes),
    Seal: seal => Value::Blob(&seal.0),
}

impl<T: ToValue + ?Sized> ToValue for &T {
    fn to_value(&self) -> Value<'_> {
        (**self).to_value()
    }
}

impl<T: ToValue> ToValue for Option<T> {
    fn to_value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, ToValue::to_value)
    }
}
