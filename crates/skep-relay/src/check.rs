//! A request is judged: read once, strictly, in the order in which it stands there. What is
//! forwarded are the bytes themselves, so nothing in them may be readable in two ways: no name
//! twice in an object, nothing behind the end, nothing that is not Unicode.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use skep_core::relay::RelayTools;

use crate::refusal::{RelayRefusal, shown};
use crate::tools::OfferedTool;
use crate::wire::WireRules;

/// Names of an object that are compared one by one; more of them are put into a set.
const FEW: usize = 16;
/// How the pictures that vendors take begin, as base64.
const PICTURES: [&str; 4] = ["/9j/", "iVBOR", "R0lGOD", "UklGR"];

/// What a request says that its way depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JudgedRequest {
    pub model: String,
    /// How long the answer may be, where it says so.
    pub limit: Option<u64>,
    /// Where pictures stand: tokens are not counted by their bytes.
    pub pictures: Vec<Range<usize>>,
}

pub(crate) fn judge(
    body: &[u8],
    rules: &WireRules,
    allowed: &RelayTools,
) -> Result<JudgedRequest, RelayRefusal> {
    let text = str::from_utf8(body).map_err(|_| RelayRefusal::body("the request is not UTF-8"))?;
    let start = text.as_ptr().addr();
    let mut look =
        Look { rules, allowed, start, model: None, judged: JudgedRequest::default(), why: None };
    let mut json = serde_json::Deserializer::from_str(text);
    let read = Walk { place: Place::Request, look: &mut look }.deserialize(&mut json);
    if let Err(error) = read.and_then(|()| json.end()) {
        let unreadable = || RelayRefusal::body(format!("the request is not understood: {error}"));
        return Err(look.why.unwrap_or_else(unreadable));
    }
    match look.model {
        Some(model) => Ok(JudgedRequest { model, ..look.judged }),
        None => Err(RelayRefusal::body("the request names no model")),
    }
}

/// What the walk through a request knows and finds.
struct Look<'a> {
    rules: &'a WireRules,
    allowed: &'a RelayTools,
    /// Of the text, to tell places in it.
    start: usize,
    model: Option<String>,
    judged: JudgedRequest,
    /// The reader's own errors are texts alone.
    why: Option<RelayRefusal>,
}

impl Look<'_> {
    fn refuse<E: de::Error>(&mut self, refusal: RelayRefusal) -> E {
        let error = E::custom(&refusal.text);
        self.why = Some(refusal);
        error
    }

    fn picture(&mut self, text: &str) {
        let from = text.as_ptr().addr().wrapping_sub(self.start);
        self.judged.pictures.push(from..from.wrapping_add(text.len()));
    }
}

/// What a value is, by where it stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Request,
    Model,
    Limit,
    Tools,
    Tool,
    /// What was said, at any depth.
    Said,
    /// The type of something that was said.
    Type,
    /// Bytes that may be a picture.
    Data,
    /// A picture's address, which must hold the picture itself.
    Picture,
    /// Leads the vendor to what does not stand in the request.
    Elsewhere,
    /// Nothing in it is looked at.
    Opaque,
}

impl Place {
    /// Of a value in an object that stands here.
    fn below(self, name: &str, rules: &WireRules) -> Self {
        match (self, name) {
            (Self::Request, "model") => Self::Model,
            (Self::Request, "tools") => Self::Tools,
            (Self::Request, name) if name == rules.limit => Self::Limit,
            (Self::Request, name) if rules.conversation.hold(name) => Self::Said,
            (Self::Said, "type") => Self::Type,
            (Self::Said, "tools" | "additional_tools") => Self::Tools,
            (Self::Said, "definition") => Self::Tool,
            // What a model gave a tool: any JSON.
            (Self::Said, "input" | "arguments") => Self::Opaque,
            (Self::Said, "data") => Self::Data,
            (Self::Said, "image_url") => Self::Picture,
            (Self::Said, "file_id" | "file_url") => Self::Elsewhere,
            (Self::Said, _) => Self::Said,
            (Self::Tool, "tools") => Self::Tools,
            _ => Self::Opaque,
        }
    }
}

/// Reads one value.
struct Walk<'l, 'a> {
    place: Place,
    look: &'l mut Look<'a>,
}

impl Walk<'_, '_> {
    fn misplaced<E: de::Error>(self) -> E {
        let what = match self.place {
            Place::Request => "the request is no object",
            Place::Model => "the model is no text",
            Place::Limit => "the limit of the answer is no number",
            Place::Tools => "the tools are no list",
            Place::Tool => "a tool is no object",
            Place::Type => "a type in the conversation is no text",
            _ => "a picture or file in the conversation is no text",
        };
        self.look.refuse(RelayRefusal::body(what))
    }

    /// A value that is neither text nor list nor object.
    fn bare<E: de::Error>(self) -> Result<(), E> {
        match self.place {
            Place::Said | Place::Opaque => Ok(()),
            _ => Err(self.misplaced()),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        match self.place {
            Place::Limit | Place::Tools | Place::Data | Place::Picture | Place::Elsewhere => Ok(()),
            _ => self.bare(),
        }
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<(), E> {
        self.bare()
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<(), E> {
        self.bare()
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<(), E> {
        match self.place {
            Place::Limit => {
                self.look.judged.limit = Some(number);
                Ok(())
            }
            _ => self.bare(),
        }
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<(), E> {
        self.bare()
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<(), E> {
        let is_picture = match self.place {
            Place::Data => PICTURES.iter().any(|beginning| text.starts_with(beginning)),
            Place::Picture => text.starts_with("data:image/"),
            _ => false,
        };
        if is_picture {
            self.look.picture(text);
        }
        self.visit_str(text)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<(), E> {
        let refusal = match self.place {
            Place::Said | Place::Opaque | Place::Data => return Ok(()),
            Place::Model => {
                self.look.model = Some(text.to_owned());
                return Ok(());
            }
            Place::Type if self.look.rules.types.hold(text) => return Ok(()),
            Place::Picture if text.starts_with("data:") => return Ok(()),
            Place::Type => {
                RelayRefusal::field(format!("{} in the conversation is not passed on", shown(text)))
            }
            Place::Picture | Place::Elsewhere => RelayRefusal::field(
                "pictures and files are passed on by their bytes alone, not by an address or an id",
            ),
            Place::Request | Place::Limit | Place::Tools | Place::Tool => {
                return Err(self.misplaced());
            }
        };
        Err(self.look.refuse(refusal))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let place = match self.place {
            Place::Tools => Place::Tool,
            Place::Said => Place::Said,
            Place::Opaque => Place::Opaque,
            _ => return Err(self.misplaced()),
        };
        while list.next_element_seed(Walk { place, look: &mut *self.look })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        let Self { place, look } = self;
        if !matches!(place, Place::Request | Place::Tool | Place::Said | Place::Opaque) {
            return Err(Walk { place, look }.misplaced());
        }
        let (mut names, mut tool) = (Names::default(), OfferedTool::default());
        while let Some(name) = object.next_key_seed(Name)? {
            if place == Place::Request && !look.rules.fields.hold(&name) {
                let text = format!("{} is not passed on to the vendor", shown(&name));
                return Err(look.refuse(RelayRefusal::field(text)));
            }
            match (place, name.as_ref()) {
                (Place::Said, "input_schema" | "parameters") => {
                    let text = "a tool is defined in the conversation where none is looked for";
                    return Err(look.refuse(RelayRefusal::tool(text)));
                }
                (Place::Tool, "type") => tool.kind = Some(object.next_value()?),
                (Place::Tool, "name") => tool.name = Some(object.next_value()?),
                (place, name) => {
                    let place = place.below(name, look.rules);
                    object.next_value_seed(Walk { place, look: &mut *look })?;
                }
            }
            if let Err(twice) = names.add(name) {
                let text = format!("the name {} stands twice in an object", shown(&twice));
                return Err(look.refuse(RelayRefusal::body(text)));
            }
        }
        if place == Place::Tool {
            tool.judge(look.rules, look.allowed).map_err(|refusal| look.refuse(refusal))?;
        }
        Ok(())
    }
}

/// The names of an object so far.
#[derive(Default)]
struct Names<'de> {
    few: Vec<Cow<'de, str>>,
    many: HashSet<Cow<'de, str>>,
}

impl<'de> Names<'de> {
    /// Gives back a name that is there already.
    fn add(&mut self, name: Cow<'de, str>) -> Result<(), Cow<'de, str>> {
        if self.few.contains(&name) || self.many.contains(&name) {
            return Err(name);
        }
        match self.few.len() {
            0..FEW => self.few.push(name),
            _ => drop(self.many.insert(name)),
        }
        Ok(())
    }
}

/// A name as it is meant, whichever way it is written; borrowed where that is possible.
struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Name {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E: de::Error>(self, name: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(name.to_owned()))
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
