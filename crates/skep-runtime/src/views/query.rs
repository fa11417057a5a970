//! What doors read: snapshot, history, inbox, channels, events.

use std::collections::HashMap;

use skep_core::approval::ApprovalState;
use skep_core::budget::{Account, Caps};
use skep_core::event::{Event, EventKind, TurnState};
use skep_core::frame::Frame;
use skep_core::ids::{AgentId, AgentName, ChannelId, Principal, SessionKey};
use skep_core::settings::{AgentState, ConfigStanding, Wanted};
use skep_core::spend::{self, Spend};
use skep_core::{BoxStream, Millis};
use skep_guard::{clock, random};
use skep_store::agents::{self, AgentCounts};
use skep_store::outbox::{self, OpenChannel};
use skep_store::watch;
use skep_store::{approvals, compactions, history, outcomes};
use skep_turn::Live;

use crate::door::{
    ActiveTurn, AgentDay, AgentInfo, ApprovalBrief, Credential, DoorError, ErrorKind, HistoryPage,
    HistoryQuery, HiveInfo, HiveState, Identity, InboxItem, InboxQuery, OpenedChannel,
    SessionChoice, Sight, SpendInfo, SpendLimits, TurnInfo, UnknownCall, WorkInfo,
};
use crate::hive::{Hive, door_error};
use crate::intake::items::inbox_item;
use crate::people::approvals::{call_summary, sees};
use crate::views::page::Page;
use crate::views::watch::{self as watching, Watch, WatchItem};

/// Rows a snapshot shows of open turns and unknown calls; the counters tell the whole.
const SHOWN: u32 = 500;

impl Hive {
    /// The hive at one moment, as far as one sees it, and the `seq` from which events go on.
    pub async fn snapshot(&self, by: &Identity, sight: &Sight) -> Result<HiveState, DoorError> {
        let read = self.shared.store.read(async |conn| {
            let (_, seq) = watch::event_range(conn).await?;
            let counts = agents::counts(conn).await?;
            let turns = watch::open_turns(conn, SHOWN).await?;
            let open = approvals::page(conn, ApprovalState::Open, None, i64::MAX, SHOWN).await?;
            Ok((seq, counts, turns, outcomes::unknown_calls(conn, SHOWN).await?, open))
        });
        let (seq, counts, turns, unknown, open) = read.await.map_err(door_error)?;
        let work = counts.iter().map(work).fold(WorkInfo::default(), |sum, one| WorkInfo {
            running: sum.running + one.running,
            waiting: sum.waiting + one.waiting,
            queued: sum.queued + one.queued,
        });
        let turns = turns.into_iter().filter(|turn| sight.covers(turn.agent, &turn.session_key));
        let turns = turns.map(|turn| TurnInfo {
            context: self.meter_of(&turn),
            retry: self.retry_of(&turn.turn, &turn.retries),
            turn: turn.turn,
            agent: turn.agent_name,
            agent_id: turn.agent,
            session: turn.session,
            session_key: turn.session_key,
            // As it is counted: one that is tried again later waits.
            state: match turn.retries.code {
                Some(_) => TurnState::Waiting.as_str().to_owned(),
                None => turn.state,
            },
            since: turn.since,
            steps: turn.steps,
            waiting_for: turn.waiting_for,
        });
        let unknown = unknown.into_iter().filter(|it| sight.covers(it.agent, &it.session_key));
        let unknown = unknown.map(|call| UnknownCall {
            turn: call.turn,
            call_id: call.call_id,
            agent: call.agent_name,
            session_key: call.session_key,
            tool: call.tool,
            at: call.at,
        });
        let who = self.visitor(by);
        Ok(HiveState {
            seq,
            hive: HiveInfo {
                version: self.shared.facts.version,
                home: None,
                started_at: self.shared.facts.started_at,
                uptime_ms: clock::now_ms().saturating_sub(self.shared.facts.started_at).max(0),
                model_note: self.shared.settings().model_note.clone(),
                store: match self.store_moved() {
                    Some(_) => "store_moved",
                    None => self.shared.env().lanes.health.word(),
                },
                // Paths and keys are for those who see the whole hive.
                config: match sight {
                    Sight::All => (*self.shared.snapshot().config).clone(),
                    Sight::Keys { .. } | Sight::Agent(_) => ConfigStanding::default(),
                },
                integrity: self.shared.facts.integrity(),
            },
            agents: self.describe(&counts, sight),
            turns: turns.collect(),
            work: (*sight == Sight::All).then_some(work),
            unknown_calls: unknown.collect(),
            approvals: open
                .into_iter()
                .filter(|row| sees(&who, sight, row))
                .map(|mut row| ApprovalBrief {
                    summary: {
                        skep_scrub::known().clean_json(&mut row.arguments);
                        call_summary(&row.class, &row.tool, &row.arguments)
                    },
                    id: row.id,
                    agent: row.agent_name,
                    session_key: row.session_key,
                    tool: row.tool,
                    asked_at: row.asked_at,
                    expires_at: row.expires_at,
                })
                .collect(),
            spend: (*sight == Sight::All).then(|| self.spend()),
        })
    }

    pub fn started_at(&self) -> Millis {
        self.shared.facts.started_at
    }

    /// What model calls used today, and what they may.
    pub fn spend(&self) -> SpendInfo {
        let now = clock::now_ms();
        let Account { spent: today, unsettled, .. } = self.shared.env().ledger.hive(now);
        let limits = &self.shared.settings().limits;
        SpendInfo {
            calls: today.calls,
            tokens: today.tokens,
            cost: (today.unpriced_calls == 0).then_some(today.cost),
            known_cost: today.cost,
            unpriced_calls: today.unpriced_calls,
            unpriced_tokens: today.unpriced_tokens,
            unsettled_tokens: unsettled.tokens,
            unsettled_cost: unsettled.cost,
            limits: SpendLimits {
                cost_per_day: limits.cost_per_day,
                tokens_per_day: limits.tokens_per_day,
                unpriced_tokens_per_day: limits.day_caps().unpriced(),
            },
            until: spend::next_day(now),
        }
    }

    /// The agent that has this name now; refuses one that none has.
    pub fn agent_id(&self, name: &AgentName) -> Result<AgentId, DoorError> {
        self.shared.agent_id(name)
    }

    pub async fn agents(&self, sight: &Sight) -> Result<Vec<AgentInfo>, DoorError> {
        let counts = self.shared.store.read(agents::counts).await.map_err(door_error)?;
        Ok(self.describe(&counts, sight))
    }

    fn describe(&self, counts: &[AgentCounts], sight: &Sight) -> Vec<AgentInfo> {
        let counts: HashMap<AgentId, &AgentCounts> =
            counts.iter().map(|count| (count.agent, count)).collect();
        let is_all = *sight == Sight::All;
        let mut accounts = match is_all {
            true => self.shared.env().ledger.agents(clock::now_ms()),
            false => HashMap::new(),
        };
        let active = self.shared.snapshot();
        let agents = active.ids.iter().filter(|(_, id)| sight.covers_agent(**id));
        let is_seen =
            |name: &AgentName| active.ids.get(name).is_some_and(|id| sight.covers_agent(*id));
        let seen =
            agents.filter_map(|(name, id)| Some((name, *id, active.settings.agents.get(name)?)));
        let described = seen.map(|(name, id, state)| {
            let count = counts.get(&id).copied();
            let mut info = AgentInfo {
                name: name.clone(),
                id: is_all.then_some(id),
                parent: active.tree.parent(name).filter(|name| is_seen(name)).cloned(),
                description: String::new(),
                status: "failed",
                error: None,
                engine: String::new(),
                model: String::new(),
                capabilities: None,
                sandbox: None,
                network: None,
                missing_tools: Vec::new(),
                policy_error: None,
                work: is_all.then(|| count.map(work).unwrap_or_default()),
                doing: count.filter(|_| is_all).and_then(|count| count.doing.clone()),
                today: is_all.then(|| today(accounts.remove(&id).unwrap_or_default())),
            };
            match state {
                AgentState::Failed { reason } => info.error = Some(reason.clone()),
                AgentState::Active(agent) => {
                    info.status = count.map_or(Wanted::Active, |count| count.wanted).as_str();
                    info.description = agent.description.clone();
                    info.engine = agent.engine.clone();
                    info.sandbox = Some(agent.sandbox.level.as_str());
                    info.network = Some(agent.sandbox.reached().as_str());
                    info.missing_tools = active.toolbox.missing(agent);
                    info.policy_error = agent.policy.broken.clone().filter(|_| is_all);
                    if let Some(today) = &mut info.today {
                        let Caps { tokens, cost } = agent.budgets.day;
                        (today.tokens_per_day, today.cost_per_day) = (tokens, cost);
                    }
                    if let Some(engine) = active.engine(agent) {
                        info.model = engine.resolve_display_model(agent);
                        info.capabilities = Some(engine.capabilities());
                    }
                }
            }
            info
        });
        described.collect()
    }

    /// A page of a conversation. One out of sight is like one that is not there.
    pub async fn history(
        &self,
        query: HistoryQuery,
        credential: &Credential,
        sight: &Sight,
    ) -> Result<HistoryPage, DoorError> {
        let (agent, name) = self.shared.read_agent(&query.agent, sight).await?;
        let query = HistoryQuery { agent: name, ..query };
        let limit = query.limit.clamp(1, 500);
        let (asked, sight) = (query.clone(), sight.clone());
        let read = self.shared.store.read_page(credential.name(), async move |conn| {
            let query = asked;
            let (session, key) = match &query.session {
                SessionChoice::Key(key) => {
                    (history::session_of_key(conn, agent, key).await?, Some(key.clone()))
                }
                SessionChoice::Id(id) => {
                    let key = history::key_of_session(conn, agent, id).await?;
                    (key.is_some().then(|| id.clone()), key)
                }
            };
            let seen = key.as_ref().is_some_and(|key| sight.covers(agent, key));
            let (session, key) = if seen { (session, key) } else { (None, None) };
            let page = match &session {
                Some(id) => Page::read(conn, &query, id, limit).await?,
                None => Page::Simple(Vec::new()),
            };
            let turns = match (&session, page.range()) {
                (Some(id), Some(rows)) => watch::turn_outcomes(conn, id, query.view, rows).await?,
                _ => Vec::new(),
            };
            let seam = match &session {
                Some(id) if query.before.is_none() => compactions::newest(conn, id).await?,
                _ => None,
            };
            Ok((session, key, page, turns, seam.map(|compaction| compaction.seam)))
        });
        let (session, key, page, turns, seam) = read.await.map_err(door_error)?;
        if let (SessionChoice::Id(id), None) = (&query.session, &session) {
            let text = format!("The agent {} has no conversation `{id}`.", query.agent);
            return Err(DoorError::new(ErrorKind::NotFound, "unknown_session", text));
        }
        let active = key.and_then(|key| self.active(agent, &key));
        let active = active.filter(|turn| Some(&turn.session) == session.as_ref());
        let seqs = page.seqs();
        let whole = seqs.len() == usize::try_from(limit).unwrap_or(usize::MAX);
        let forward = query.after.is_some();
        let before = seqs.first().copied().filter(|seq| *seq > 1 && (whole || forward));
        let after = seqs.last().copied().filter(|_| whole && forward);
        let meta = query.before.is_none().then(|| page.newest_meta(seam)).flatten();
        let context = meta.map(|meta| self.meter(agent, &query.agent, &meta));
        let messages = page.into_json()?;
        Ok(HistoryPage {
            context,
            messages,
            session,
            view: query.view,
            streaming: active.is_some(),
            active,
            turns: turns.into_iter().filter_map(|turn| self.outcome_of(turn)).collect(),
            before,
            after,
        })
    }

    pub async fn inbox(
        &self,
        query: InboxQuery,
        credential: &Credential,
        sight: &Sight,
    ) -> Result<Vec<InboxItem>, DoorError> {
        let agent = self.shared.only_agent(query.agent.as_ref(), sight).await?;
        let limit = query.limit.clamp(1, 500);
        let InboxQuery { state, after, .. } = query;
        let sight = sight.clone();
        let read = self.shared.store.read_page(credential.name(), async move |conn| match sight {
            Sight::Keys { principal, .. } => {
                watch::items_of(conn, &principal, agent, state, after, limit).await
            }
            Sight::All | Sight::Agent(_) => watch::items(conn, agent, state, after, limit).await,
        });
        let rows = read.await.map_err(door_error)?;
        Ok(rows.into_iter().map(inbox_item).collect())
    }

    /// Everything that happens from now on.
    pub fn events(&self) -> BoxStream<'static, Live> {
        self.shared.env().bus.live()
    }

    /// What the watcher sees of durable events after `since`, then of everything that happens.
    /// Without `since`: from now. `live` are the hive's events, begun before anything was read.
    pub fn watch<W: Watch>(
        &self,
        live: BoxStream<'static, Live>,
        credential: &Credential,
        since: Option<i64>,
        watch: W,
    ) -> BoxStream<'static, WatchItem<W::Page>> {
        let (store, who) = (self.shared.store.clone(), credential.name().to_owned());
        watching::watch(live, store, who, since, watch)
    }

    /// The key of the conversation an event is about, where it is about one.
    pub async fn key_of(&self, event: &Event) -> Result<Option<SessionKey>, DoorError> {
        let read = self.shared.store.read(async |conn| match (&event.kind, &event.session) {
            (EventKind::TurnStart { session_key, .. }, _)
            | (EventKind::InboxAccepted { session_key, .. }, _)
            | (EventKind::QuestionAsked { session_key, .. }, _) => Ok(Some(session_key.clone())),
            (_, Some(session)) => watch::key_of_session(conn, session).await,
            (EventKind::InboxEnded { item, .. }, None) => watch::key_of_item(conn, item).await,
            (_, None) => Ok(None),
        });
        read.await.map_err(door_error)
    }

    /// The model call under way in a session, for whoever comes late.
    pub fn active(&self, agent: AgentId, key: &SessionKey) -> Option<ActiveTurn> {
        let running = self.shared.env().lanes.registry.of_lane(agent, key)?;
        let fold = running.fold();
        let (call, deltas, blocks) = fold.so_far();
        Some(ActiveTurn {
            turn: running.turn.clone(),
            agent: running.agent_name.clone(),
            session: running.session.clone(),
            session_key: running.session_key.clone(),
            token: running.token,
            call,
            deltas,
            content: blocks.to_vec(),
        })
    }

    /// A new channel of this kind (`ws`), or one this principal had opened.
    pub async fn open_channel(
        &self,
        kind: &str,
        principal: &Principal,
        wanted: Option<ChannelId>,
    ) -> Result<OpenedChannel, DoorError> {
        let store = &self.shared.store;
        let Some(channel) = wanted else {
            let id = random::uuid().simple().to_string();
            let channel = ChannelId(format!("{kind}:{id}"));
            let (principal, now) = (principal.clone(), clock::now_ms());
            let command = OpenChannel { channel: channel.clone(), principal, now };
            store.write(command).await.map_err(door_error)?;
            return Ok(OpenedChannel { channel, seq: 0, floor: 0 });
        };
        let read = store.read(async |conn| outbox::channel(conn, &channel).await);
        match read.await.map_err(door_error)? {
            None => {
                let text = format!("There is no channel `{channel}`; connect without one.");
                Err(DoorError::new(ErrorKind::NotFound, "unknown_channel", text))
            }
            Some(row) if row.principal != *principal => {
                let text = "This channel belongs to another principal.";
                Err(DoorError::new(ErrorKind::Forbidden, "foreign_channel", text))
            }
            Some(row) => Ok(OpenedChannel { channel, seq: row.last_seq, floor: row.floor_seq }),
        }
    }

    /// The frame after this one of a channel, and perhaps more, in order: for a live one that
    /// came before its neighbours.
    pub async fn frames_after(
        &self,
        channel: &ChannelId,
        last: i64,
    ) -> Result<Vec<Frame>, DoorError> {
        let read =
            self.shared.store.read(async |conn| outbox::frames_since(conn, channel, last).await);
        read.await.map_err(door_error)
    }

    /// A page of a channel's durable frames after `since`, in order; nothing after the last.
    pub async fn frames_since(
        &self,
        credential: &Credential,
        channel: &ChannelId,
        since: i64,
    ) -> Result<Vec<Frame>, DoorError> {
        let channel = channel.clone();
        let read = self.shared.store.read_page(credential.name(), async move |conn| {
            outbox::frames_since(conn, &channel, since).await
        });
        read.await.map_err(door_error)
    }
}

fn today(account: Account) -> AgentDay {
    let Spend { calls, tokens, cost, unpriced_calls, .. } = account.spent;
    AgentDay { calls, tokens, known_cost: cost, unpriced_calls, ..AgentDay::default() }
}

fn work(count: &AgentCounts) -> WorkInfo {
    WorkInfo { running: count.running, waiting: count.waiting, queued: count.queued }
}
