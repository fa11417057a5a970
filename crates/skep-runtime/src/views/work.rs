//! Work, a page at a time.

use skep_core::ids::Principal;
use skep_store::work::{self, WorkFilter, WorkRow};

use crate::door::{
    Credential, DoorError, MessageFailure, Sight, WorkCounts, WorkItem, WorkPage, WorkQuery,
};
use crate::hive::{Hive, door_error};
use crate::intake::items::priority_word;

/// Characters of an item in a list.
const PREVIEW: usize = 200;

impl Hive {
    /// Whoever does not see the whole hive sees what they sent.
    pub async fn work(
        &self,
        query: WorkQuery,
        principal: &Principal,
        credential: &Credential,
        sight: &Sight,
    ) -> Result<WorkPage, DoorError> {
        let own = match sight {
            Sight::Keys { principal, .. } => Some(principal),
            Sight::All | Sight::Agent(_) => query.mine.then_some(principal),
        };
        let filter = WorkFilter {
            agent: self.shared.only_agent(query.agent.as_ref(), sight).await?,
            states: query.states,
            kind: query.kind,
            from: own.cloned(),
            text: query.text.filter(|text| !text.is_empty()),
        };
        let (after, since, limit) = (query.after, query.since, query.limit.clamp(1, 500));
        let read = self.shared.store.read_page(credential.name(), async move |conn| {
            let page = work::page(conn, &filter, after, limit).await?;
            let counts = match since {
                Some(since) => Some(work::counts(conn, &filter, since).await?),
                None => None,
            };
            Ok((page, counts))
        });
        let (page, counts) = read.await.map_err(door_error)?;
        Ok(WorkPage {
            items: page.rows.into_iter().map(work_item).collect(),
            next: page.next,
            counts: counts.map(|counts| WorkCounts {
                pending: counts.pending,
                running: counts.running,
                waiting: counts.waiting,
                done: counts.ended.done,
                failed: counts.ended.failed,
                cancelled: counts.ended.cancelled,
            }),
        })
    }
}

fn work_item(row: WorkRow) -> WorkItem {
    let (task, giver) = row.task.unzip();
    let failure = |(code, error)| MessageFailure { code, error };
    WorkItem {
        item_id: row.item,
        ord: row.ord,
        kind: row.cause.listed().into_owned(),
        task,
        agent: row.agent_name,
        session_key: row.session_key,
        from: giver.map_or(row.principal.0, |giver| giver.0),
        preview: skep_scrub::known().beginning(&row.body, PREVIEW),
        priority: priority_word(row.priority),
        state: row.state,
        waiting_for: row.waiting_for,
        turn: row.turn,
        attempts: row.attempts,
        error: row.code.zip(row.error).map(failure),
        created_at: row.created_at,
        started_at: row.started_at,
        finished_at: row.finished_at,
        root: row.root,
        parent: row.parent,
        open: row.open,
        retried_as: row.retried_as,
    }
}
