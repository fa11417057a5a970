//! Commands are data: one struct per write in its table-family file, one enum that joins them.
//! The writer sees only the enum; callers see only their struct and its own answer.

use std::future::Future;

use crate::engine::error::Refusal;
use crate::engine::tx::Tx;

/// One closed write: all its statements, no waiting for anything but the database in between.
pub trait Run {
    type Out: Send + 'static;

    fn run<'a>(
        &'a self,
        tx: &'a mut Tx<'_>,
    ) -> impl Future<Output = Result<Self::Out, Refusal>> + Send;

    /// About how many bytes this adds to its batch; commands that carry text count it.
    fn cost(&self) -> usize {
        std::mem::size_of_val(self)
    }
}

/// A schema and the counters that live in it.
pub struct Schema {
    /// Append-only; the versions rise from 1.
    pub migrations: &'static [MigrationFile],
    /// One row, two integers: the highest event `seq` and the highest `ord` given so far.
    pub counters: &'static str,
    /// There is an audit trail, with its head beside the database.
    pub audited: bool,
}

pub struct MigrationFile {
    pub version: i64,
    pub name: &'static str,
    pub sql: &'static str,
}

/// A set of commands over one schema: what [`commands!`] makes.
pub trait CommandSet: Send + Sync + 'static {
    type Outcome: Send + 'static;
    const SCHEMA: Schema;

    fn run<'a>(
        &'a self,
        tx: &'a mut Tx<'_>,
    ) -> impl Future<Output = Result<Self::Outcome, Refusal>> + Send;
    fn cost(&self) -> usize;
    fn name(&self) -> &'static str;
}

/// A command that belongs to the set `S`.
pub trait Member<S: CommandSet>: Run {
    fn join(self) -> S;
    /// This command's own answer out of the set's; nothing where it is another command's.
    fn outcome(outcome: S::Outcome) -> Option<Self::Out>;
}

/// Joins command structs of the same names into `$set`, with `$outcome` for their answers:
/// `commands! { pub enum Command -> Outcome, SCHEMA; Accept, Take }`.
#[macro_export]
macro_rules! commands {
    (
        $(#[$doc:meta])*
        $vis:vis enum $set:ident -> $outcome:ident, $schema:expr;
        $($command:ident),+ $(,)?
    ) => {
        $(#[$doc])*
        #[allow(clippy::large_enum_variant)]
        $vis enum $set { $($command($command)),+ }

        /// What each command answers.
        #[allow(clippy::large_enum_variant)]
        $vis enum $outcome { $($command(<$command as $crate::Run>::Out)),+ }

        impl $crate::CommandSet for $set {
            type Outcome = $outcome;
            const SCHEMA: $crate::Schema = $schema;

            async fn run<'a>(
                &'a self,
                tx: &'a mut $crate::Tx<'_>,
            ) -> Result<$outcome, $crate::Refusal> {
                // Boxed one by one: the writer's future stays small whatever a command holds.
                match self {
                    $(Self::$command(command) => {
                        Box::pin($crate::Run::run(command, tx)).await.map($outcome::$command)
                    })+
                }
            }

            fn cost(&self) -> usize {
                match self { $(Self::$command(command) => $crate::Run::cost(command)),+ }
            }

            fn name(&self) -> &'static str {
                match self { $(Self::$command(_) => stringify!($command)),+ }
            }
        }

        $(impl $crate::Member<$set> for $command {
            fn join(self) -> $set {
                $set::$command(self)
            }

            #[allow(unreachable_patterns)]
            fn outcome(outcome: $outcome) -> Option<<Self as $crate::Run>::Out> {
                match outcome {
                    $outcome::$command(out) => Some(out),
                    _ => None,
                }
            }
        })+
    };
}
