//! The command line: the tree of all commands. Those that talk to a hive are in skep-cli; here are
//! the ones that need the home itself.
//!
//! Commands never open the database or read another hive's files: what they show comes from the
//! running hive. `doctor`, `logs` and `audit verify` look at the home itself, and change nothing.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use skep_cli::commands::{
    agent, approve, audit, budget, calls, chat, down, history, inbox, link, provider, send,
    session, status, token,
};
use skep_cli::hive::{Home, Place};
use skep_cli::print::output;
use skep_cli::{Exit, Failure};

use crate::home::{Known, Loaded};

mod audit_at_rest;
mod completions;
mod config;
mod detach;
mod doctor;
mod logs;
mod new_agent;
pub mod up;

#[cfg(test)]
mod cli_tests;

/// What the composition root brings along.
pub struct Program<S> {
    /// Names that configuration files may refer to.
    pub known: Known,
    /// Serves a home until it is told to stop. The instance lock is held while it runs.
    pub serve: S,
}

/// With the commit it was built from, where that is known.
const VERSION: &str = env!("SKEP_VERSION");

/// A hive for your agents: keeps LLM agents, their work and their talk.
#[derive(Parser)]
#[command(name = "skep", version = VERSION, after_help = EXAMPLES, arg_required_else_help = true)]
struct Arguments {
    #[command(flatten)]
    place: Place,
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  skep up                              serve the hive in ~/.skep
  skep chat                            talk to main
  skep send main \"hello\" --wait        say something and wait for the answer
  skep history show main               read what was said
  skep status                          see what is going on
  skep link                            open the dashboard in a browser

Exit codes: 0 ok, 1 failed, 2 usage or configuration, 3 refused";

#[derive(Subcommand)]
enum Command {
    /// Serve the hive
    Up(up::Up),
    /// Stop the hive that runs in this home
    Down(down::Down),
    /// Show what the hive is doing
    Status(status::Status),
    /// Check the home and say what is wrong with it
    Doctor(doctor::Doctor),
    /// Check the files of the home, print their schemas
    Config(config::Config),
    /// Talk to an agent in the terminal
    Chat(chat::Chat),
    /// The models the hive can ask, and whether they answer
    Provider(provider::Provider),
    /// Send a message to an agent
    Send(send::Send),
    /// Read what was said
    History(history::History),
    /// Agents: list, show, make, stop
    Agent(agent::Agent),
    /// What was sent to the agents, newest first
    Inbox(inbox::Inbox),
    /// Single items of the inbox: show, cancel, try again
    Task(inbox::Task),
    /// Let a call run that waits for a person
    Approve(approve::Approve),
    /// Keep a call from running that waits for a person
    Deny(approve::Deny),
    /// What would be decided about a tool call, and why
    Why(approve::Why),
    /// What is allowed for a time: grant, list, take back
    Grant(approve::Grant),
    /// Read what the hive noted
    Logs(logs::Logs),
    /// The trail of every tool call and decision: list, verify, export
    Audit(audit::Audit),
    /// What model calls may use today, and what is used of it
    Budget(budget::Budget),
    /// Calls whose outcome a crash left unknown: list, resolve
    Calls(calls::Calls),
    /// Sign a browser in to the dashboard
    Link(link::Link),
    /// Conversations: list and fork them
    Session(session::Session),
    /// Tokens for programs and other machines
    Token(token::Token),
    /// Completion for a shell
    Completions(completions::Completions),
}

/// The whole program. Everything that can go wrong becomes a message and an exit code.
pub fn main<S>(program: Program<S>) -> ExitCode
where
    S: AsyncFnOnce(Home, Loaded) -> Result<(), Failure>,
{
    // Before anything is opened or started. A system that cannot do it is named by the sandbox's
    // trial, which is where it matters.
    let _ = skep_guard::descriptors::keep_from_children();
    run(program, std::env::args_os())
}

fn run<S>(program: Program<S>, arguments: impl IntoIterator<Item = OsString>) -> ExitCode
where
    S: AsyncFnOnce(Home, Loaded) -> Result<(), Failure>,
{
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version come this way too; printing can only fail on a closed stream.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { Exit::Usage.code() } else { 0 });
        }
    };
    let json = arguments.place.json;
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let failure = Failure::new(Exit::Failed, "start", error.to_string());
            return output::failure(&failure, json);
        }
    };
    // What a hive says when it starts is not what it is for.
    let serves = matches!(arguments.command, Command::Up(_));
    let result = runtime.block_on(Box::pin(dispatch(program, arguments)));
    // What still runs belongs to a request nobody waits for any more.
    runtime.shutdown_background();
    match result {
        Ok(()) if !serves && let Some(why) = output::lost() => {
            let failure = Failure::new(Exit::Failed, "write all of the result", why);
            output::failure(&failure.next("make room, then ask again"), json)
        }
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => output::failure(&failure, json),
    }
}

async fn dispatch<S>(program: Program<S>, arguments: Arguments) -> Result<(), Failure>
where
    S: AsyncFnOnce(Home, Loaded) -> Result<(), Failure>,
{
    let place = arguments.place;
    match arguments.command {
        Command::Up(command) => up::run(command, &place, program).await,
        Command::Down(command) => down::run(command, &place).await,
        Command::Status(command) => status::run(command, &place).await,
        Command::Doctor(command) => doctor::run(command, &place, &program.known).await,
        Command::Config(command) => config::run(command, &place, &program.known),
        Command::Chat(command) => Box::pin(chat::run(command, &place)).await,
        Command::Provider(command) => provider::run(command, &place).await,
        Command::Send(command) => send::run(command, &place).await,
        Command::History(command) => history::run(command, &place).await,
        Command::Agent(command) => {
            let make =
                |home: &Home, new: &agent::NewAgent| new_agent::make(home, new, &program.known);
            agent::run(command, &place, make).await
        }
        Command::Inbox(command) => inbox::run(command, &place).await,
        Command::Task(command) => inbox::run_task(command, &place).await,
        Command::Completions(command) => completions::run(&command),
        Command::Approve(command) => approve::run_approve(command, &place).await,
        Command::Deny(command) => approve::run_deny(command, &place).await,
        Command::Why(command) => approve::run_why(command, &place).await,
        Command::Grant(command) => approve::run_grant(command, &place).await,
        Command::Logs(command) => logs::run(command, &place).await,
        Command::Audit(command) => audit::run(command, &place, audit_at_rest::verify).await,
        Command::Budget(command) => budget::run(command, &place).await,
        Command::Calls(command) => calls::run(command, &place).await,
        Command::Link(command) => link::run(command, &place).await,
        Command::Session(command) => session::run(command, &place).await,
        Command::Token(command) => token::run(command, &place).await,
    }
}
