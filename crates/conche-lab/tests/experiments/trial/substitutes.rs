//! Other controllers on some nodes of a run.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use conche_lab::scenario::Document;
use conche_lab::trial::{Control, Routes, Substitute, Trace, run_substituted};
use conche_netsim::NodeId;
use conche_proto::cc::AnyController;

use super::*;

#[test]
fn a_substitute_controls_its_node_only_and_knows_its_peers() {
    let text = SMALL.replace("60ms", "1200ms");
    let document = Document::from_toml(&text).expect("it is valid");
    let met = Arc::<Mutex<Vec<NodeId>>>::default();
    let substitutes = |node: NodeId, control: Control| {
        assert!(matches!(control, Control::Scheme(0)));
        let of_node = Arc::clone(&met);
        (node.index() == 1).then(|| Substitute {
            controller: AnyController::by_name("coap-b").expect("it is known"),
            meet: Box::new(move |peer| of_node.lock().expect("no panic").push(peer)),
        })
    };
    let replication = Replication { index: 0, count: 1, seed: 1 };
    let mut trace = |_: &_| Trace::Packets(Rc::new(RefCell::new(())));
    let ran = run_substituted(&document.cells()[0], replication, &Routes::default(), &mut trace, &substitutes);
    let flows = ran.expect("it runs").outcome.flows;
    assert_eq!(*met.lock().expect("no panic"), [flows[1].server]);
    let default = record(&text).expect("it runs").flows;
    assert_eq!(flows[0].exchanges, default[0].exchanges);
    assert_ne!(flows[1].exchanges, default[1].exchanges);
}
