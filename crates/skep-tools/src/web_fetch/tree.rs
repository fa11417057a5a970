//! The elements of a page, as many as a page may have.
//!
//! The library builds what browsers would, however much that is: a page of a megabyte can ask for
//! billions of elements, or for hours. What grows too large or takes too long is broken off.

use std::borrow::Cow;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use html5ever::interface::{ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::tendril::{StrTendril, TendrilSink};
use html5ever::{Attribute, ExpandedName, ParseOpts, QualName, parse_document};
use markup5ever_rcdom::{Handle, RcDom};

/// Elements of one page; the longest specifications on the web have fewer.
const MOST_ELEMENTS: u32 = 200_000;
const MOST_TIME: Duration = Duration::from_secs(5);
/// Elements and mistakes between two looks at the time.
const LOOK: u32 = 256;

/// Why a page was not read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Excess {
    Elements,
    Time,
}

/// The document, or why there is none. Takes up to [`MOST_TIME`]: not for an async thread.
pub(super) fn parse(html: &str) -> Result<Handle, Excess> {
    let parsed = catch_unwind(AssertUnwindSafe(|| {
        let sink = BoundedSink::default();
        parse_document(sink, ParseOpts::default()).one(html)
    }));
    match parsed {
        Ok(dom) => Ok(dom.document),
        Err(thrown) => match thrown.downcast::<Excess>() {
            Ok(excess) => Err(*excess),
            Err(thrown) => resume_unwind(thrown),
        },
    }
}

struct BoundedSink {
    dom: RcDom,
    elements: Cell<u32>,
    counted: Cell<u32>,
    began: Instant,
}

impl Default for BoundedSink {
    fn default() -> Self {
        let (elements, counted) = (Cell::new(0), Cell::new(0));
        Self { dom: RcDom::default(), elements, counted, began: Instant::now() }
    }
}

impl BoundedSink {
    /// The library's parser cannot be told to stop; it can only be left.
    fn count(&self) {
        self.counted.set(self.counted.get() + 1);
        if self.counted.get().is_multiple_of(LOOK) && self.began.elapsed() > MOST_TIME {
            resume_unwind(Box::new(Excess::Time));
        }
    }

    fn count_element(&self) {
        self.elements.set(self.elements.get() + 1);
        if self.elements.get() > MOST_ELEMENTS {
            resume_unwind(Box::new(Excess::Elements));
        }
        self.count();
    }
}

impl TreeSink for BoundedSink {
    type Handle = Handle;
    type Output = RcDom;
    type ElemName<'a>
        = ExpandedName<'a>
    where
        Self: 'a;

    fn finish(self) -> RcDom {
        self.dom
    }

    /// Nobody reads them.
    fn parse_error(&self, _: Cow<'static, str>) {
        self.count();
    }

    fn get_document(&self) -> Handle {
        self.dom.get_document()
    }

    fn elem_name<'a>(&'a self, target: &'a Handle) -> ExpandedName<'a> {
        self.dom.elem_name(target)
    }

    fn create_element(&self, name: QualName, attrs: Vec<Attribute>, flags: ElementFlags) -> Handle {
        self.count_element();
        self.dom.create_element(name, attrs, flags)
    }

    fn create_comment(&self, _: StrTendril) -> Handle {
        self.count_element();
        self.dom.create_comment(StrTendril::new())
    }

    fn create_pi(&self, target: StrTendril, data: StrTendril) -> Handle {
        self.count_element();
        self.dom.create_pi(target, data)
    }

    fn append(&self, parent: &Handle, child: NodeOrText<Handle>) {
        self.dom.append(parent, child);
    }

    fn append_based_on_parent_node(
        &self,
        element: &Handle,
        previous: &Handle,
        child: NodeOrText<Handle>,
    ) {
        self.count();
        self.dom.append_based_on_parent_node(element, previous, child);
    }

    fn append_doctype_to_document(
        &self,
        name: StrTendril,
        public_id: StrTendril,
        system_id: StrTendril,
    ) {
        self.dom.append_doctype_to_document(name, public_id, system_id);
    }

    fn get_template_contents(&self, target: &Handle) -> Handle {
        self.dom.get_template_contents(target)
    }

    fn same_node(&self, a: &Handle, b: &Handle) -> bool {
        self.dom.same_node(a, b)
    }

    fn set_quirks_mode(&self, mode: QuirksMode) {
        self.dom.set_quirks_mode(mode);
    }

    fn append_before_sibling(&self, sibling: &Handle, node: NodeOrText<Handle>) {
        self.dom.append_before_sibling(sibling, node);
    }

    fn add_attrs_if_missing(&self, target: &Handle, attrs: Vec<Attribute>) {
        self.dom.add_attrs_if_missing(target, attrs);
    }

    fn remove_from_parent(&self, target: &Handle) {
        self.dom.remove_from_parent(target);
    }

    fn reparent_children(&self, node: &Handle, new_parent: &Handle) {
        self.dom.reparent_children(node, new_parent);
    }

    fn is_mathml_annotation_xml_integration_point(&self, target: &Handle) -> bool {
        self.dom.is_mathml_annotation_xml_integration_point(target)
    }
}
