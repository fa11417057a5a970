//! Sessions: listing them, what a person does with one, and carrying them out of a hive and into
//! another.

use futures_util::stream;

use skep_core::engine::FailureCode;
use skep_core::event::TurnState;
use skep_core::ids::{AgentId, AgentName, Principal, SessionId, SessionKey};
use skep_core::message::Body;
use skep_core::{BoxStream, title};
use skep_guard::{clock, random};
use skep_store::import::{Import, Imported};
use skep_store::sessions::{
    self, Cursor, DeleteSession, EditSession, ForkSession, SessionRow, SessionWork,
};
use skep_store::{Conn, SqlError, files, history};

use crate::door::{
    AttachmentSum, Credential, DoorError, ErrorKind, ForkWish, ForkedFrom, HistoryForm,
    ImportReport, SessionEdit, SessionInfo, SessionPage, SessionQuery, SessionState, Sight,
};
use crate::hive::{Hive, door_error};
use crate::intake;
use crate::views::transcript;

/// Characters of a title that a person gives.
const LONGEST_TITLE: usize = 120;
/// Characters of the newest message in a list.
const LAST_MESSAGE: usize = 120;

impl Hive {
    /// A page of an agent's sessions.
    pub async fn sessions(
        &self,
        agent: &AgentName,
        query: SessionQuery,
        credential: &Credential,
        sight: &Sight,
    ) -> Result<SessionPage, DoorError> {
        let (id, agent) = self.shared.read_agent(agent, sight).await?;
        let SessionQuery { archived, after, limit } = query;
        let after = after.as_deref().map(cursor).transpose()?;
        let sight = sight.clone();
        let read = self.shared.store.read_page(credential.name(), async move |conn| {
            let after = after.as_ref();
            match sight {
                Sight::Keys { prefix, .. } => {
                    sessions::page_of_keys(conn, id, &prefix, archived, after, limit).await
                }
                Sight::Agent(own) if own != id => Ok(Vec::new()),
                Sight::All | Sight::Agent(_) => {
                    sessions::page(conn, id, archived, after, limit).await
                }
            }
        });
        let rows = read.await.map_err(door_error)?;
        let full = u32::try_from(rows.len()).is_ok_and(|count| count >= limit);
        let last = rows.last().filter(|_| full);
        let after = last.map(|row| format!("{}.{}.{}", u8::from(row.pinned), row.last_at, row.id));
        let sessions = rows.into_iter().map(|row| described(&agent, row)).collect();
        Ok(SessionPage { sessions, after })
    }

    /// One session. One out of sight is like one that is not there.
    pub async fn session(
        &self,
        agent: &AgentName,
        session: &SessionId,
        sight: &Sight,
    ) -> Result<SessionInfo, DoorError> {
        let (_, agent, row) = self.seen_session(agent, session, sight).await?;
        Ok(described(&agent, row))
    }

    /// The files its messages have, where there are any.
    pub async fn attachments(&self, id: &SessionId) -> Result<Option<AttachmentSum>, DoorError> {
        let read = self.shared.store.read(async |conn| sessions::attachments(conn, id).await);
        let (count, bytes) = read.await.map_err(door_error)?;
        Ok((count > 0).then_some(AttachmentSum { count, bytes }))
    }

    /// Names, pins or archives a session.
    pub async fn edit_session(
        &self,
        agent: &AgentName,
        session: &SessionId,
        edit: SessionEdit,
        sight: &Sight,
    ) -> Result<SessionInfo, DoorError> {
        let (id, agent_name, _) = self.seen_session(agent, session, sight).await?;
        let title =
            edit.title.map(|title| skep_scrub::known().clean_owned(title.trim().to_owned()));
        let unfit = |title: &String| {
            title.chars().count() > LONGEST_TITLE || title.chars().any(char::is_control)
        };
        if title.as_ref().is_some_and(unfit) {
            let text = format!(
                "A title has at most {LONGEST_TITLE} characters, none of them a control character."
            );
            return Err(DoorError::new(ErrorKind::Invalid, "bad_title", text));
        }
        let command = EditSession {
            agent: id,
            agent_name,
            session: session.clone(),
            title,
            pinned: edit.pinned,
            archived: edit.archived,
            now: clock::now_ms(),
        };
        self.shared.store.write(command).await.map_err(door_error)?;
        self.session(agent, session, sight).await
    }

    /// Deletes a session that nobody works in. The audit trail and what was spent stay.
    pub async fn delete_session(
        &self,
        agent: &AgentName,
        session: &SessionId,
        principal: &Principal,
        credential: &Credential,
        sight: &Sight,
    ) -> Result<(), DoorError> {
        let (id, agent_name, row) = self.seen_session(agent, session, sight).await?;
        let gone = session.clone();
        let read = self
            .shared
            .store
            .read_long(credential.name(), async move |conn| sessions::parts(conn, &gone).await);
        let command = DeleteSession {
            agent: id,
            agent_name,
            session: session.clone(),
            parts: read.await.map_err(door_error)?,
            principal: principal.clone(),
            now: clock::now_ms(),
        };
        let current = self.shared.store.write(command).await.map_err(door_error)?;
        let env = self.shared.env();
        env.session_cache.forget(session);
        if current {
            env.session_scopes.end(id, &row.key);
        }
        Ok(())
    }

    pub(crate) async fn seen_session(
        &self,
        agent: &AgentName,
        session: &SessionId,
        sight: &Sight,
    ) -> Result<(AgentId, AgentName, SessionRow), DoorError> {
        let (id, agent) = self.shared.read_agent(agent, sight).await?;
        let read = self.shared.store.read(async |conn| sessions::one(conn, id, session).await);
        let row = read.await.map_err(door_error)?.filter(|row| sight.covers(id, &row.key));
        row.map(|row| (id, agent.clone(), row)).ok_or_else(|| {
            let text = format!(
                "The agent {agent} has no conversation `{session}`; `skep session list {agent}` \
                 shows them."
            );
            DoorError::new(ErrorKind::NotFound, "unknown_session", text)
        })
    }

    /// A new session that begins as a copy of another.
    pub async fn fork(&self, wish: ForkWish, sight: &Sight) -> Result<SessionInfo, DoorError> {
        let agent = self.shared.agent_id(&wish.agent)?;
        self.seen_session(&wish.agent, &wish.from, sight).await?;
        intake::check_key(&wish.session_key)?;
        let session = SessionId(random::uuid().to_string());
        let fork = ForkSession {
            agent,
            agent_name: wish.agent.clone(),
            from: wish.from,
            at: wish.at,
            session: session.clone(),
            key: wish.session_key,
            spoken: Vec::new(),
            now: clock::now_ms(),
        };
        self.shared.store.write(fork).await.map_err(door_error)?;
        self.session(&wish.agent, &session, sight).await
    }

    /// Every message of a session as JSON lines, in pieces of whole lines. What is said after
    /// this was called is not in it.
    pub async fn export(
        &self,
        agent: &AgentName,
        session: &SessionId,
        form: HistoryForm,
        reader: (&Principal, &Credential),
        sight: &Sight,
    ) -> Result<BoxStream<'static, Result<String, DoorError>>, DoorError> {
        let (_, agent, row) = self.seen_session(agent, session, sight).await?;
        let (session, last) = (session.clone(), row.messages);
        let (reader, credential) = (reader.0.clone(), reader.1.name().to_owned());
        let export = Export { agent, session, form, hive: self.clone(), reader, last, seen: 0 };
        let begin = (self.shared.store.clone(), credential, export);
        Ok(Box::pin(stream::try_unfold(begin, |(store, who, export)| async move {
            if export.seen >= export.last {
                return Ok(None);
            }
            let read = store.read_page(&who, async move |conn| export.piece(conn).await);
            let (lines, export) = read.await.map_err(door_error)?;
            Ok(Some((lines?, (store, who, export))))
        })))
    }

    /// A session out of the lines of an export: all of it, or nothing.
    pub async fn import(
        &self,
        agent: &AgentName,
        key: Option<SessionKey>,
        text: String,
    ) -> Result<ImportReport, DoorError> {
        let id = self.shared.agent_id(agent)?;
        let (bytes, name) = (text.len(), agent.clone());
        // Many megabytes take a while to understand; others have their turn meanwhile.
        let read = tokio::task::spawn_blocking(move || transcript::read(&name, &text));
        let read = read.await.unwrap_or_else(|_| Err("it cannot be read; see the log".to_owned()));
        let messages = read.map_err(|why| DoorError::new(ErrorKind::Invalid, "bad_import", why))?;
        let session = messages.first().map(|message| message.session_id.clone());
        let Some(session) = session else {
            let why = "There is no message in it.";
            return Err(DoorError::new(ErrorKind::Invalid, "bad_import", why));
        };
        let key = key.unwrap_or_else(|| SessionKey(format!("import:{session}")));
        intake::check_key(&key)?;
        let count = messages.len();
        let import = Import {
            agent: id,
            agent_name: agent.clone(),
            session: session.clone(),
            key,
            messages,
            bytes,
            now: clock::now_ms(),
        };
        let imported = self.shared.store.write(import).await.map_err(door_error)?;
        let imported = imported == Imported::New;
        Ok(ImportReport { agent: agent.clone(), session, messages: count, imported })
    }
}

/// A session on its way out.
struct Export {
    agent: AgentName,
    session: SessionId,
    form: HistoryForm,
    hive: Hive,
    reader: Principal,
    last: i64,
    seen: i64,
}

impl Export {
    /// The lines of a page of rows. One with files is the last of its piece: they are in the line.
    async fn piece(
        mut self,
        conn: &mut Conn,
    ) -> Result<(Result<String, DoorError>, Self), SqlError> {
        let page = history::page_after(conn, &self.agent, &self.session, self.seen).await?;
        // Of a session that was deleted meanwhile; the export would not end without this.
        let mut piece = String::new();
        if page.is_empty() {
            self.seen = self.last;
        }
        for mut message in page {
            self.seen = message.seq;
            if message.seq > self.last {
                break;
            }
            let has_files = message.body.files().next().is_some();
            if has_files {
                files::fill(conn, std::iter::once(&mut message), |_| true).await?;
            }
            let sender = message.body.origin.as_ref();
            let sender = sender.and_then(|it| self.hive.sender(&it.principal, &self.reader));
            match transcript::write(&message, self.form, sender.as_deref().unwrap_or("You")) {
                Ok(line) => piece.push_str(&line),
                Err(error) => return Ok((Err(error), self)),
            }
            if has_files {
                break;
            }
        }
        Ok((Ok(piece), self))
    }
}

fn cursor(text: &str) -> Result<Cursor, DoorError> {
    let mut parts = text.splitn(3, '.');
    let mut read = || {
        let pinned = parts.next()? == "1";
        let last_at = parts.next()?.parse().ok()?;
        Some(Cursor { pinned, last_at, id: parts.next()?.to_owned() })
    };
    read().ok_or_else(|| {
        let text = "after is what the page before gave as `after`";
        DoorError::new(ErrorKind::Invalid, "invalid_query", text)
    })
}

/// What goes on now counts more than how the newest turn ended.
fn state(work: &SessionWork) -> SessionState {
    let ended = work.outcome.as_deref().and_then(FailureCode::parse);
    match (work.open, ended) {
        (Some(TurnState::Running), _) => SessionState::Running,
        (Some(TurnState::Waiting), _) => SessionState::Waiting,
        (Some(TurnState::Ready | TurnState::Ended), _) => SessionState::Queued,
        (None, _) if work.queued > 0 => SessionState::Queued,
        (None, Some(code)) if code.is_cancel() => SessionState::Cancelled,
        (None, Some(_)) => SessionState::Failed,
        (None, None) => SessionState::Idle,
    }
}

/// The words of a message, else the names of its files.
fn last_message(said: &Body) -> Option<String> {
    // Each word may be long: no more are looked at than are shown.
    let said_first = skep_scrub::known().beginning(&said.plain_text(), 4 * LAST_MESSAGE);
    let words = title::first_words(&said_first, LAST_MESSAGE);
    let files = || said.files().map(|file| file.name.as_str()).collect::<Vec<_>>().join(", ");
    let said = if words.is_empty() { files() } else { words };
    (!said.is_empty()).then_some(said)
}

/// An automatic title is the beginning of a message, cut when what it says was no secret yet.
pub(crate) fn shown_title(title: String) -> String {
    match title::may_be_cut(&title) {
        true => skep_scrub::known().clean_cut(&title).into_owned(),
        false => title,
    }
}

pub(crate) fn described(agent: &AgentName, row: SessionRow) -> SessionInfo {
    let forked_from = row.forked_from.map(|(session, at)| ForkedFrom { session, at });
    let chosen = if row.current { row.chosen } else { Default::default() };
    let state = state(&row.work);
    let ended = matches!(state, SessionState::Failed | SessionState::Cancelled);
    SessionInfo {
        id: row.id,
        agent: agent.clone(),
        session_key: row.key,
        title: shown_title(row.title),
        pinned: row.pinned,
        archived: row.archived,
        state,
        last_error: row.work.error.filter(|_| ended),
        last_message: row.last_said.as_ref().and_then(last_message),
        created_at: row.created_at,
        last_at: row.last_at,
        messages: row.messages,
        tokens: row.tokens,
        cost: row.cost,
        current: row.current,
        profile: chosen.profile,
        think: chosen.think,
        forked_from,
        cache_breaks: Vec::new(),
        attachments: None,
    }
}
