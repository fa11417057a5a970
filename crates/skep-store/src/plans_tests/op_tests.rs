//! Agents are made and removed.

use skep_core::cause::CallRef;
use skep_core::ids::*;

use super::seen;
use crate::agents::{InstallAgents, NewAgent, RegisterAgents};
use crate::assign::ChainLimits;
use crate::ops::{self, OpStanding};
use crate::shutdown::{self, BeginShutdown, EndShutdown, EndWork, RemoveAgents};
use crate::spawn::{
    BeginSpawn, BeginUndo, Bootstrap, FinishSpawn, PlaceSpawned, Spawner, UndoSpawn,
};
use crate::teams::GuardTeam;
use crate::{OpenOptions, Store};

use super::Story;
use skep_core::settings::QueueMode;

#[tokio::test]
async fn every_statement_about_changes_of_the_tree_finds_its_rows_by_an_index() {
    let folder = tempfile::tempdir().unwrap();
    seen::watch();
    let store = Store::open(OpenOptions::in_run_folder(folder.path()), |_| {}).await.unwrap();
    let agents = vec![NewAgent::root(AgentName::new("main"))];
    let main = store.write(RegisterAgents { agents, now: 1 }).await.unwrap()[0].1;
    let channel = crate::outbox::OpenChannel {
        channel: ChannelId::new("ws:1"),
        principal: Principal::new("operator"),
        now: 1,
    };
    store.write(channel).await.unwrap();
    let mut story = Story { store: store.clone(), agent: main, made: 0 };
    let lease = story.accept(None, true, QueueMode::Queue).await.unwrap();
    let call = CallRef { turn: lease.turn.clone(), call: CallId::new("call") };
    let limits = ChainLimits { hops: 16, items: 9 };
    let begin = |op: &str, name: &str, spawner| BeginSpawn {
        op: op.to_owned(),
        name: AgentName::new(name),
        spawner,
        by: "main".to_owned(),
        now: 2,
    };
    let turn = || Spawner::Turn { turn: lease.turn.clone(), limits };
    let person = || Spawner::Person { parent: Some(AgentName::new("main")) };
    let place = |op: &str, name: &str| PlaceSpawned {
        op: op.to_owned(),
        name: AgentName::new(name),
        words: vec!["books".to_owned()],
        now: 3,
    };
    let new = AgentName::new("new");
    // One that is taken back, and one that is made.
    assert_eq!(store.write(begin("a", "new", turn())).await.unwrap(), OpStanding::Begun);
    let busy = store.write(begin("b", "new", turn())).await.unwrap();
    assert!(matches!(busy, OpStanding::Refused { code: "busy", .. }), "{busy:?}");
    store.write(place("a", "new")).await.unwrap();
    assert_eq!(store.read(ops::spawns).await.unwrap().len(), 1);
    let op = "a".to_owned();
    assert_eq!(store.write(BeginUndo { op: op.clone() }).await.unwrap(), None);
    store.write(UndoSpawn { op: op.clone() }).await.unwrap();
    assert!(store.read(ops::spawns).await.unwrap().is_empty());
    assert_eq!(store.write(begin("a", "new", turn())).await.unwrap(), OpStanding::Begun);
    store.write(place("a", "new")).await.unwrap();
    let child = NewAgent { parent: Some(AgentName::new("main")), ..NewAgent::root(new.clone()) };
    let install = InstallAgents { agents: vec![child], gone: Vec::new(), now: 4 };
    store.write(install).await.unwrap();
    let guard = GuardTeam { call: call.clone(), team: new.clone() };
    let hidden = store.write(guard.clone()).await.unwrap();
    assert_eq!(hidden.unwrap().0, "unknown_team", "what is half made is nobody's team");
    let bootstrap =
        Bootstrap { item: ItemId::new("boot"), turn: lease.turn.clone(), body: "begin".to_owned() };
    let finish = FinishSpawn {
        op,
        name: new.clone(),
        bootstrap: Some(bootstrap),
        by: "main".to_owned(),
        result: "{}".to_owned(),
        now: 5,
    };
    store.write(finish).await.unwrap();
    assert_eq!(store.write(guard).await.unwrap(), None);
    let again = store.write(begin("a", "new", turn())).await.unwrap();
    assert_eq!(again, OpStanding::Done("{}".to_owned()));
    let taken = store.write(begin("c", "new", person())).await.unwrap();
    assert!(matches!(taken, OpStanding::Refused { code: "name_taken", .. }), "{taken:?}");
    // And removed, with its first item.
    let remove = |op: &str, name: &str, call| BeginShutdown {
        op: op.to_owned(),
        name: AgentName::new(name),
        cascade: false,
        call,
        by: "main".to_owned(),
        now: 6,
    };
    let main_stays = store.write(remove("d", "main", None)).await.unwrap();
    assert!(matches!(main_stays, OpStanding::Refused { code: "main_stays", .. }));
    let unknown = store.write(remove("d", "nobody", None)).await.unwrap();
    assert!(matches!(unknown, OpStanding::Refused { code: "unknown_team", .. }));
    let begun = store.write(remove("d", "new", Some(call))).await.unwrap();
    assert_eq!(begun, OpStanding::Begun);
    assert_eq!(store.read(shutdown::closing_names).await.unwrap(), [new]);
    assert_eq!(store.read(ops::shutdowns).await.unwrap().len(), 1);
    let op = "d".to_owned();
    let (by, result) = ("main".to_owned(), "gone".to_owned());
    let gone = RemoveAgents { op: op.clone(), by, result, now: 8 };
    store.write(gone.clone()).await.unwrap_err();
    let ended = store.write(EndWork { op: op.clone(), now: 7 }).await.unwrap();
    assert_eq!((ended.more, ended.turns.len()), (false, 0));
    store.write(gone).await.unwrap();
    let answer = store.write(EndShutdown { op, now: 9 }).await.unwrap();
    assert_eq!(answer, "gone");
    seen::explain_all(folder.path(), &store, 40).await;
}
