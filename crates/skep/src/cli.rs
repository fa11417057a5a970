//! The command line: the tree of all commands. Those that talk to a hive are in skep-cli; here are
//! the ones that need the home itself.
//!
//! Commands never open the database or read another hive's files: what they show comes from the
//! running hive. `doctor`, `logs`, `secrets scan` and `audit verify` look at the home itself, and
//! change nothing.

use std::ffi::OsString;
use std::num::NonZero;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use skep_cli::commands::{
    agent, approve, ask, audit, budget, calls, chat, down, history, inbox, link, provider, send,
    session, status, token, usage, vault,
};
use skep_cli::hive::{Globals, Home};
use skep_cli::print::output;
use skep_cli::{Exit, Failure};
use skep_guard::limits::{self, Slice};

use crate::home::{KnownNames, LoadedHome};

mod audit_at_rest;
mod completions;
mod config;
mod detach;
mod doctor;
mod logs;
mod new_agent;
mod secrets;
mod tour;
mod up;

#[cfg(test)]
mod cli_tests;

/// What the composition root passes in.
pub struct Program<S> {
    /// Names that configuration files may refer to.
    pub known: KnownNames,
    /// Serves a home until it is stopped. The caller holds the instance lock.
    pub serve: S,
}

/// With the commit it was built from, where that is known.
const VERSION: &str = env!("SKEP_VERSION");

/// A hive for your agents: keeps LLM agents, their work and their conversations.
#[derive(Parser)]
#[command(name = "skep", version = VERSION, after_help = EXAMPLES, arg_required_else_help = true)]
struct RootArgs {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: RootCommand,
}

const EXAMPLES: &str = "Examples:
  skep tour                            see a team of agents at work, without a key
  skep up                              serve the hive in ~/.skep
  skep chat                            chat with main in the terminal
  skep send main \"hello\" --wait        send a message and wait for the answer
  skep history show main               read the conversation
  skep approve                         decide about tool calls that need approval
  skep status                          show what runs, waits and is queued
  skep link                            open the dashboard in a browser

Exit codes: 0 ok, 1 failed, 2 usage or configuration, 3 refused";

#[derive(Subcommand)]
enum RootCommand {
    /// Serve the hive
    Up(up::UpArgs),
    /// Stop the hive that runs in this home
    Down(down::DownArgs),
    /// Show what runs, waits and is queued
    Status(status::StatusArgs),
    /// See a team of agents at work in two minutes, without a key
    Tour(skep_cli::commands::tour::TourArgs),
    /// Check home, configuration, store, provider and sandbox
    Doctor(doctor::DoctorArgs),
    /// Check the configuration files, print their schemas
    #[command(
        subcommand,
        after_help = "Examples:
  skep config check              the first error of each file, without a start
  skep config schema providers   the JSON Schema of providers.yaml"
    )]
    Config(config::ConfigCommand),
    /// Chat with an agent in the terminal
    Chat(chat::ChatArgs),
    /// List and test the model profiles
    #[command(
        subcommand,
        after_help = "Examples:
  skep provider list --check     the profiles, and whether they can be reached
  skep provider test             a small, real call to each"
    )]
    Provider(provider::ProviderCommand),
    /// Send a message to an agent
    Send(send::SendArgs),
    /// Show, search, export and import conversations
    #[command(
        subcommand,
        after_help = "Examples:
  skep history show main         the newest messages
  skep history search invoice    messages with a word
  skep history export --out backup"
    )]
    History(history::HistoryCommand),
    /// List, show, create and stop agents
    #[command(
        subcommand,
        after_help = "Examples:
  skep agent list
  skep agent new reviewer --tools read,grep,glob
  skep agent stop main           stop it; skep agent start main has it go on"
    )]
    Agent(agent::AgentCommand),
    /// List the messages sent to agents, newest first
    Inbox(inbox::InboxArgs),
    /// Show, cancel and retry single items of the inbox
    #[command(
        subcommand,
        after_help = "Examples:
  skep task list --state failed
  skep task show ID              message, state, times, answer or error
  skep task retry ID             send its message again"
    )]
    Task(inbox::TaskCommand),
    /// Approve a waiting tool call
    Approve(approve::ApproveArgs),
    /// Deny a waiting tool call
    Deny(approve::DenyArgs),
    /// List what agents ask the operator, and answer
    Ask(ask::AskArgs),
    /// Test the policy: what would be decided about a tool call, and why
    Why(approve::WhyArgs),
    /// Allow tool calls for a limited time: new, list, revoke
    #[command(
        subcommand,
        after_help = "Examples:
  skep grant new main bash --command 'git push' --minutes 30
  skep grant list"
    )]
    Grant(approve::GrantCommand),
    /// Show the log
    Logs(logs::LogsArgs),
    /// List, verify and export the audit trail: tool calls and decisions
    #[command(
        subcommand,
        after_help = "Examples:
  skep audit list --outcome refused
  skep audit verify              whether any row was changed or removed
  skep audit export --out audit.jsonl"
    )]
    Audit(audit::AuditCommand),
    /// Find keys and tokens that can be read in plain text in the home
    #[command(
        subcommand,
        after_help = "Examples:
  skep secrets scan              where they are, and who can replace them"
    )]
    Secrets(secrets::SecretsCommand),
    /// Show the limits of money and tokens, and what is used of them
    Budget(budget::BudgetArgs),
    /// Show what model calls used and cost, by day, agent and model
    Usage(usage::UsageArgs),
    /// List and resolve tool calls whose outcome is unknown after a crash
    #[command(
        subcommand,
        after_help = "Examples:
  skep calls list
  skep calls resolve TURN CALL happened --note 'the mail was sent'"
    )]
    Calls(calls::CallsCommand),
    /// Sign a browser in to the dashboard
    Link(link::LinkArgs),
    /// List, name, pin, archive, delete, fork and summarise conversations
    #[command(
        subcommand,
        after_help = "Examples:
  skep session list main
  skep session fork ID --at 12   continue after message 12 in a new conversation
  skep session compact ID        summarise its older messages"
    )]
    Session(session::SessionCommand),
    /// Create, list and revoke tokens for people, programs and other machines
    #[command(
        subcommand,
        after_help = "Examples:
  skep token new laptop --role user
  skep token list
  skep token revoke ID"
    )]
    Token(token::TokenCommand),
    /// Keep keys, tokens and passwords that agents and models use and nobody is shown
    #[command(
        subcommand,
        after_help = "Examples:
  skep vault set anthropic       add an entry or replace its value, which is asked for
  skep vault list                names, owners and hosts; no command shows a value
  skep vault move                move keys.env and secrets in providers.yaml into the vault
  skep vault rotate              a new encryption key; the values stay the same"
    )]
    Vault(vault::VaultCommand),
    /// Print completions for a shell
    Completions(completions::CompletionsArgs),
}

/// The whole program. Everything that can go wrong becomes a message and an exit code.
pub fn main<S>(program: Program<S>) -> ExitCode
where
    S: AsyncFnOnce(Home, LoadedHome) -> Result<(), Failure>,
{
    // Runs before anything is opened. On a system without it the sandbox's trial says so.
    let _ = skep_guard::descriptors::keep_from_children();
    run(program, std::env::args_os())
}

/// Threads that run tasks. A turn is a chain of short steps: each idle thread that is woken for one
/// costs more than the step, and the store writes, reads long pages and copies its log on threads
/// of its own. With one per core a turn took a fifth more processor time on two cores.
const fn workers(cores: usize) -> usize {
    match cores / 2 {
        0 => 1,
        half @ 1..8 => half,
        _ => 8,
    }
}

fn run<S>(program: Program<S>, arguments: impl IntoIterator<Item = OsString>) -> ExitCode
where
    S: AsyncFnOnce(Home, LoadedHome) -> Result<(), Failure>,
{
    let arguments = match RootArgs::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version come this way too; printing can only fail on a closed stream.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { Exit::Usage.code() } else { 0 });
        }
    };
    let globals = arguments.globals.clone();
    let json = globals.json;
    let serves = matches!(arguments.command, RootCommand::Up(_));
    if serves {
        limits::set_slice_of_thread(Slice::Short);
    }
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = match runtime.worker_threads(workers(cores)).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let failure = Failure::new(Exit::Failed, "start", error.to_string());
            return output::failure(&failure, json);
        }
    };
    let result = runtime.block_on(Box::pin(dispatch(program, arguments)));
    // Tasks that still run belong to abandoned requests.
    runtime.shutdown_background();
    match result {
        // The output of `up` is not its result.
        Ok(()) if !serves && let Some(why) = output::lost() => {
            let failure = Failure::new(Exit::Failed, "write all of the result", why);
            output::failure(&failure.next("make room, then ask again"), json)
        }
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => output::failure(&globals.with_hive(failure), json),
    }
}

async fn dispatch<S>(program: Program<S>, arguments: RootArgs) -> Result<(), Failure>
where
    S: AsyncFnOnce(Home, LoadedHome) -> Result<(), Failure>,
{
    let globals = arguments.globals;
    match arguments.command {
        RootCommand::Up(command) => up::run(command, &globals, &program.known, program.serve).await,
        RootCommand::Down(command) => down::run(command, &globals).await,
        RootCommand::Status(command) => status::run(command, &globals).await,
        RootCommand::Tour(command) => {
            Box::pin(tour::run(command, &globals, &program.known, program.serve)).await
        }
        RootCommand::Doctor(command) => doctor::run(command, &globals, &program.known).await,
        RootCommand::Config(command) => config::run(command, &globals, &program.known),
        RootCommand::Chat(command) => {
            let up = up::UpArgs::detached();
            let start = async || up::run(up, &globals, &program.known, program.serve).await;
            Box::pin(chat::run(command, &globals, start)).await
        }
        RootCommand::Provider(command) => provider::run(command, &globals).await,
        RootCommand::Send(command) => send::run(command, &globals).await,
        RootCommand::History(command) => history::run(command, &globals).await,
        RootCommand::Agent(command) => {
            let make = async |home: &Home, new: &agent::NewAgentArgs| {
                new_agent::make(home, new, &program.known).await
            };
            agent::run(command, &globals, make).await
        }
        RootCommand::Inbox(command) => inbox::run(command, &globals).await,
        RootCommand::Task(command) => inbox::run_task(command, &globals).await,
        RootCommand::Completions(command) => completions::run(&command, RootArgs::command()),
        RootCommand::Approve(command) => approve::run_approve(command, &globals).await,
        RootCommand::Deny(command) => approve::run_deny(command, &globals).await,
        RootCommand::Why(command) => approve::run_why(command, &globals).await,
        RootCommand::Grant(command) => approve::run_grant(command, &globals).await,
        RootCommand::Logs(command) => logs::run(command, &globals).await,
        RootCommand::Audit(command) => audit::run(command, &globals, audit_at_rest::verify).await,
        RootCommand::Secrets(command) => secrets::run(&command, &globals, &program.known).await,
        RootCommand::Budget(command) => budget::run(command, &globals).await,
        RootCommand::Usage(command) => usage::run(command, &globals).await,
        RootCommand::Ask(command) => ask::run(command, &globals).await,
        RootCommand::Calls(command) => calls::run(command, &globals).await,
        RootCommand::Link(command) => link::run(command, &globals).await,
        RootCommand::Session(command) => session::run(command, &globals).await,
        RootCommand::Token(command) => token::run(command, &globals).await,
        RootCommand::Vault(command) => vault::run(command, &globals).await,
    }
}
