//! RAID0 arithmetic: a grid is one logical sequence of bytes, cut into stripes dealt to the devices in turn.
//! A contiguous logical range is a contiguous range of every device's file, which is what lets a request
//! cover many stripes of one device.

use std::ops::Range;

/// Stripes of `stripe` bytes over `devices` files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stripes {
    devices: u64,
    stripe: u64,
}

impl Stripes {
    /// Stripes over so many devices. Both are at least 1 (job check).
    ///
    /// # Panics
    /// Where either is zero.
    pub fn new(devices: u32, stripe: u64) -> Self {
        assert!(devices > 0 && stripe > 0, "no devices or no stripe");
        Self { devices: u64::from(devices), stripe }
    }

    /// Number of devices.
    pub fn devices(&self) -> usize {
        self.devices as usize
    }

    /// Device and offset in its file of a logical position.
    pub fn locate(&self, position: u64) -> (usize, u64) {
        let stripe = position / self.stripe;
        ((stripe % self.devices) as usize, stripe / self.devices * self.stripe + position % self.stripe)
    }

    /// Logical position of a byte of a device's file: the inverse of [`Self::locate`].
    pub fn position(&self, device: usize, offset: u64) -> u64 {
        let row = offset / self.stripe;
        (row * self.devices + device as u64) * self.stripe + offset % self.stripe
    }

    /// Bytes from a logical position to the end of its stripe.
    pub fn rest_of_stripe(&self, position: u64) -> u64 {
        self.stripe - position % self.stripe
    }

    /// Bytes of the logical range `0..position` that lie on a device: the length of its file.
    pub fn on_device(&self, device: usize, position: u64) -> u64 {
        let device = device as u64;
        let full = position / self.stripe;
        let own = full / self.devices + u64::from(device < full % self.devices);
        own * self.stripe + if full % self.devices == device { position % self.stripe } else { 0 }
    }

    /// The part of a logical range that lies on a device, as a range of its file.
    pub fn extent(&self, device: usize, range: Range<u64>) -> Range<u64> {
        self.on_device(device, range.start)..self.on_device(device, range.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_one_place_and_every_range_is_contiguous_on_each_device() {
        for devices in 1..5 {
            for stripe in [1, 3, 8] {
                let stripes = Stripes::new(devices, stripe);
                let mut next = vec![0; devices as usize];
                for position in 0..100 {
                    let (device, offset) = stripes.locate(position);
                    assert_eq!(offset, next[device], "position {position}");
                    assert_eq!(stripes.position(device, offset), position);
                    next[device] += 1;
                    for (device, &len) in next.iter().enumerate() {
                        assert_eq!(stripes.on_device(device, position + 1), len);
                    }
                }
                assert_eq!(stripes.extent(0, 10..50).start, stripes.on_device(0, 10));
            }
        }
    }
}
