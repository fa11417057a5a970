//! What sweeps over the moments of some work have in common: the hive is ended at each of them.

use std::ops::Range;

use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use skep_testkit::shim::{End, Shim};
use skep_testkit::wait::{self, PATIENCE};

use crate::org_tasks::configure;
use crate::stage::{Play, Stage};

/// Moments that run side by side: most of each is waiting for the disk.
const SIDE_BY_SIDE: usize = 3;

/// A power loss at this operation, with all that was not synced gone or a part of it.
pub fn power_loss(at: u64) -> End {
    End::PowerLoss { at, seed: if at.is_multiple_of(2) { 0 } else { at } }
}

/// A start of this home and a stop in order, so that others spare the first start.
pub async fn settle(stage: &Stage) {
    let mut first = stage.up().await;
    first.hive.terminate().unwrap();
    let ended = first.hive.wait(PATIENCE).await.unwrap();
    assert_eq!(ended.code(), Some(0), "{}", first.hive.stderr());
}

/// Runs something at so many points, spread over these operations: by number and operation.
pub async fn at_points<F: Future>(
    points: u64,
    operations: Range<u64>,
    run: impl Fn(u64, u64) -> F,
) -> Vec<F::Output> {
    let length = operations.end - operations.start;
    let at = |point| operations.start + point * length / points;
    let ran = stream::iter(0..points).map(|point| run(point, at(point)));
    ran.buffer_unordered(SIDE_BY_SIDE).collect().await
}

pub async fn inbox(play: &Play, agent: &str) -> Vec<Value> {
    let path = format!("/api/v1/inbox?agent={agent}");
    let page = play.api().get(&path).await.unwrap().good().unwrap();
    page["items"].as_array().unwrap().clone()
}

/// Work of the tree of `org_tasks` that one message to `main` begins.
#[derive(Clone, Copy)]
pub struct WorkOfTree {
    pub message: &'static str,
    /// Of `main`, once all is done.
    pub items: usize,
    pub script: fn(&Stage),
}

impl WorkOfTree {
    /// Ends the hive at points of the work; what is there after the next start is for `check`.
    pub async fn sweep(
        self,
        points: u64,
        end: impl Fn(u64) -> End,
        check: impl AsyncFn(&Stage, &Play, End),
    ) {
        let template = &Stage::new().await;
        configure(template);
        settle(template).await;
        let scene = self.scene(template).await;
        let shim = Shim::new(scene.home()).unwrap();
        let play = scene.run(scene.start().shim(&shim)).await;
        let begun = shim.count().unwrap();
        play.item("main", "main", self.message).await;
        self.quiet(&play).await;
        let operations = begun + 1..shim.count().unwrap() + 1;
        let (end, check) = (&end, &check);
        at_points(points, operations, |_, at| self.ended_at(template, end(at), check)).await;
    }

    async fn scene(self, template: &Stage) -> Stage {
        let scene = template.again().await;
        configure(&scene);
        (self.script)(&scene);
        scene
    }

    fn is_done(self, items: &[Value]) -> bool {
        items.len() == self.items && items.iter().all(|item| !item["finished_at"].is_null())
    }

    /// Waits until nothing is to be done, and nothing was lost.
    async fn quiet(self, play: &Play) {
        let quiet = wait::until_async("all work to end", PATIENCE, || async {
            self.is_done(&inbox(play, "main").await).then_some(())
        });
        quiet.await.unwrap();
    }

    async fn ended_at(self, template: &Stage, end: End, check: &impl AsyncFn(&Stage, &Play, End)) {
        let scene = self.scene(template).await;
        let shim = Shim::new(scene.home()).unwrap();
        shim.prepare(end).unwrap();
        if let Ok(hive) = scene.start().shim(&shim).listening().await {
            let mut play = scene.play(hive);
            let path = "/api/v1/agents/main/messages";
            let body = json!({"message": self.message, "session_key": "main"});
            let _ = play.api().post(path, &body).await;
            let ended = wait::until_async("the work, or the process, to end", PATIENCE, || async {
                let page = play.api().get("/api/v1/inbox?agent=main").await;
                let page = page.and_then(|answer| answer.good());
                let items = |page: Value| page["items"].as_array().cloned().unwrap_or_default();
                page.map_or(Some(()), |page| self.is_done(&items(page)).then_some(()))
            });
            ended.await.unwrap();
            let _ = play.hive.kill().await;
        }
        let play = scene.up().await;
        if inbox(&play, "main").await.is_empty() {
            play.item("main", "main", self.message).await;
        }
        self.quiet(&play).await;
        check(&scene, &play, end).await;
        assert_eq!(scene.model.refusals(), Vec::<String>::new());
    }
}

/// The one item of each of these agents has ended well.
pub async fn others_are_done(play: &Play, end: End) {
    for agent in ["research", "press"] {
        let ended = wait::until_async("what others were given to end", PATIENCE, || async {
            let items = inbox(play, agent).await;
            items.iter().all(|item| !item["finished_at"].is_null()).then_some(items)
        });
        let items = ended.await.unwrap();
        assert_eq!(items.len(), 1, "{end:?}: {items:?}");
        assert_eq!(items[0]["state"], "done", "{end:?}: {items:?}");
    }
}
