//! Sessions: listing them, forking one, and carrying them out of a hive and into another.

use futures_util::stream;

use skep_core::BoxStream;
use skep_core::ids::{AgentId, AgentName, SessionId, SessionKey};
use skep_guard::{clock, random};
use skep_store::import::{Import, Imported};
use skep_store::sessions::{self, Cursor, ForkSession, SessionRow};
use skep_store::{Conn, SqlError, files, history};

use crate::door::{
    Credential, DoorError, ErrorKind, ForkWish, ForkedFrom, HistoryForm, ImportReport, SessionInfo,
    SessionPage, Sight,
};
use crate::hive::{Hive, door_error};
use crate::intake;
use crate::views::transcript;

impl Hive {
    /// A page of an agent's sessions.
    pub async fn sessions(
        &self,
        agent: &AgentName,
        after: Option<&str>,
        limit: u32,
        credential: &Credential,
        sight: &Sight,
    ) -> Result<SessionPage, DoorError> {
        let (id, agent) = self.shared.read_agent(agent, sight).await?;
        let after = after.map(cursor).transpose()?;
        let sight = sight.clone();
        let read = self.shared.store.read_page(credential.name(), async move |conn| match sight {
            Sight::Keys { prefix, .. } => {
                sessions::page_of_keys(conn, id, &prefix, after.as_ref(), limit).await
            }
            Sight::Agent(own) if own != id => Ok(Vec::new()),
            Sight::All | Sight::Agent(_) => sessions::page(conn, id, after.as_ref(), limit).await,
        });
        let rows = read.await.map_err(door_error)?;
        let full = u32::try_from(rows.len()).is_ok_and(|count| count >= limit);
        let after = rows.last().filter(|_| full).map(|row| format!("{}.{}", row.last_at, row.id));
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

    async fn seen_session(
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
                "The agent {agent} has no session `{session}`; `skep session list {agent}` shows \
                 them."
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
        credential: &Credential,
        sight: &Sight,
    ) -> Result<BoxStream<'static, Result<String, DoorError>>, DoorError> {
        let (_, agent, row) = self.seen_session(agent, session, sight).await?;
        let (session, last) = (session.clone(), row.messages);
        let export = Export { agent, session, form, last, seen: 0 };
        let begin = (self.shared.store.clone(), credential.name().to_owned(), export);
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
        // Rows of a session never go; without this an export of fewer would not end.
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
            match transcript::write(&message, self.form) {
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
    let parts = text.split_once('.').and_then(|(at, id)| Some((at.parse().ok()?, id)));
    match parts {
        Some((last_at, id)) => Ok(Cursor { last_at, id: id.to_owned() }),
        None => {
            let text = "after is what the page before gave as `after`";
            Err(DoorError::new(ErrorKind::Invalid, "invalid_query", text))
        }
    }
}

fn described(agent: &AgentName, row: SessionRow) -> SessionInfo {
    let forked_from = row.forked_from.map(|(session, at)| ForkedFrom { session, at });
    let chosen = if row.current { row.chosen } else { Default::default() };
    SessionInfo {
        id: row.id,
        agent: agent.clone(),
        session_key: row.key,
        title: row.title,
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
    }
}
