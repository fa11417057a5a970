//! What is known of each agent, by name, in maps that are copied for every change.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::vocab::ids::AgentName;

/// Entries of one part at the most.
const PART: usize = 32;

/// In the order of the names. Copies share their entries in parts: a change to one of them copies
/// one part, however many agents there are.
#[derive(Clone)]
pub struct AgentMap<V>(Vec<Arc<BTreeMap<AgentName, V>>>);

impl<V> AgentMap<V> {
    pub fn get(&self, name: &AgentName) -> Option<&V> {
        self.0.get(self.part_of(name))?.get(name)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&AgentName, &V)> {
        self.0.iter().flat_map(|part| part.iter())
    }

    pub fn keys(&self) -> impl Iterator<Item = &AgentName> {
        self.iter().map(|(name, _)| name)
    }

    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// The last part that begins with this name or an earlier one, else the first.
    fn part_of(&self, name: &AgentName) -> usize {
        let begins = |part: &Arc<BTreeMap<AgentName, V>>| {
            part.first_key_value().is_none_or(|(first, _)| first <= name)
        };
        self.0.partition_point(begins).saturating_sub(1)
    }
}

impl<V: Clone> AgentMap<V> {
    pub fn insert(&mut self, name: AgentName, value: V) {
        let at = self.part_of(&name);
        if self.0.is_empty() {
            self.0.push(Arc::default());
        }
        let part = Arc::make_mut(&mut self.0[at]);
        part.insert(name, value);
        if part.len() > PART
            && let Some(middle) = part.keys().nth(PART / 2).cloned()
        {
            let upper = part.split_off(&middle);
            self.0.insert(at + 1, Arc::new(upper));
        }
    }

    pub fn remove(&mut self, name: &AgentName) {
        let at = self.part_of(name);
        if self.get(name).is_some() {
            let part = Arc::make_mut(&mut self.0[at]);
            part.remove(name);
            if part.is_empty() {
                self.0.remove(at);
            }
        }
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&AgentName, &mut V)> {
        self.0.iter_mut().flat_map(|part| Arc::make_mut(part).iter_mut())
    }
}

impl<V> Default for AgentMap<V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<V: PartialEq> PartialEq for AgentMap<V> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<V: fmt::Debug> fmt::Debug for AgentMap<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<V: Clone> Extend<(AgentName, V)> for AgentMap<V> {
    fn extend<I: IntoIterator<Item = (AgentName, V)>>(&mut self, entries: I) {
        entries.into_iter().for_each(|(name, value)| self.insert(name, value));
    }
}

impl<V: Clone> FromIterator<(AgentName, V)> for AgentMap<V> {
    fn from_iter<I: IntoIterator<Item = (AgentName, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        map.extend(entries);
        map
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: usize) -> AgentName {
        AgentName(format!("a{number}"))
    }

    #[test]
    fn it_is_the_map_it_stands_for() {
        let (mut map, mut plain) = (AgentMap::default(), BTreeMap::new());
        // Steps that go through all numbers in no order, inserting and removing.
        for step in 0..4000_usize {
            let number = step.wrapping_mul(7919) % 500;
            if step % 3 == 2 {
                map.remove(&name(number));
                plain.remove(&name(number));
            } else {
                map.insert(name(number), step);
                plain.insert(name(number), step);
            }
            assert_eq!(map.get(&name(number)), plain.get(&name(number)));
        }
        assert!(map.iter().eq(plain.iter()));
        assert_eq!(map, plain.clone().into_iter().collect());
        for number in 0..500 {
            map.remove(&name(number));
        }
        assert_eq!(map, AgentMap::default());
    }

    #[test]
    fn a_change_copies_one_part_however_many_entries_there_are() {
        for many in [10, 1000, 10_000] {
            let before: AgentMap<usize> = (0..many).map(|number| (name(number), number)).collect();
            let mut after = before.clone();
            after.insert(name(7), 70);
            let copied = (0..many).filter(|number| {
                let of = |map: &AgentMap<usize>| map.get(&name(*number)).map(std::ptr::from_ref);
                of(&before) != of(&after)
            });
            assert!(copied.count() <= PART, "of {many}");
            assert_eq!((before.get(&name(7)), after.get(&name(7))), (Some(&7), Some(&70)));
        }
    }
}
