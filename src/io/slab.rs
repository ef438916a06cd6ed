//! A place for each request in flight, named by a small number that travels through the kernel or through
//! another engine as its mark.

/// Values under numbers that are reused.
#[derive(Debug)]
pub(super) struct Slab<T> {
    slots: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Slab<T> {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self { slots: Vec::with_capacity(capacity), free: Vec::with_capacity(capacity) }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn insert(&mut self, value: T) -> usize {
        if let Some(key) = self.free.pop() {
            self.slots[key] = Some(value);
            return key;
        }
        self.slots.push(Some(value));
        self.slots.len() - 1
    }

    pub(super) fn get_mut(&mut self, key: usize) -> Option<&mut T> {
        self.slots.get_mut(key)?.as_mut()
    }

    pub(super) fn remove(&mut self, key: usize) -> Option<T> {
        let value = self.slots.get_mut(key)?.take()?;
        self.free.push(key);
        Some(value)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_names_one_value_until_it_is_removed() {
        let mut slab = Slab::with_capacity(2);
        let (a, b) = (slab.insert('a'), slab.insert('b'));
        assert_eq!(slab.remove(a), Some('a'));
        assert_eq!(slab.remove(a), None);
        assert!(slab.get_mut(a).is_none() && slab.get_mut(9).is_none());
        let c = slab.insert('c');
        assert_ne!(c, b);
        assert_eq!((slab.len(), slab.values().collect::<String>().as_str()), (2, "cb"));
    }
}
