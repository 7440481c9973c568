//! Modelled block devices: what all of them do, and which there are.

use super::drive::{self, Drive};
use super::flash::{self, Flash};
use super::queue::Rules;
use crate::block::{Millis, Transfer};

/// Takes transfers and says when they are done. What waits for it, and in which order, is the queue's business.
pub trait Device: Send {
    /// Sectors.
    fn capacity(&self) -> u64;

    /// Does a transfer that is handed over at `now`, which never goes back; when it is done.
    fn serve(&mut self, now: Millis, transfer: Transfer) -> Millis;

    /// Milliseconds until it could begin with a transfer, by which a queue chooses.
    fn reach(&self, _now: Millis, _transfer: Transfer) -> Millis {
        0.0
    }

    /// Bytes that its flash took so far, with those that it moved by itself; nothing where there is no flash.
    fn programmed(&self) -> Option<u64> {
        None
    }
}

/// A device that there is a model of.
pub struct DeviceModel {
    pub name: &'static str,
    pub about: &'static str,
    pub rules: Rules,
    /// That the drive has, as it is sold.
    pub bytes: u64,
    /// Whether a slice of it is enough, which takes less memory: one that behaves as the whole does.
    pub sliced: bool,
    /// Of so many bytes at least, if it is sliced.
    pub make: fn(u64) -> Box<dyn Device>,
}

pub const ALL: &[DeviceModel] = &[
    DeviceModel {
        name: "st15150w",
        about: "Seagate's Barracuda 4 of 1995, the papers' disk",
        rules: drive::DISKSORT,
        bytes: 4_294_000_000,
        sliced: false,
        make: |_| Box::new(Drive::new(drive::ST15150W)),
    },
    DeviceModel {
        name: "hdd-18t",
        about: "a nearline disk of 18 TB and 7,200 rpm, 512e, with NCQ and a write cache",
        rules: drive::NCQ,
        bytes: 18_000_000_000_000,
        sliced: false,
        make: |_| Box::new(Drive::new(drive::HDD_18T)),
    },
    DeviceModel {
        name: "sata-ssd",
        about: "a flash drive for servers on SATA",
        rules: flash::SATA_RULES,
        bytes: 480_000_000_000,
        sliced: true,
        make: |bytes| Box::new(Flash::new(flash::SATA, bytes)),
    },
    DeviceModel {
        name: "nvme",
        about: "a flash drive for servers on four lanes of PCIe 4",
        rules: flash::NVME_RULES,
        bytes: 3_840_000_000_000,
        sliced: true,
        make: |bytes| Box::new(Flash::new(flash::NVME, bytes)),
    },
];

/// The device of this name; an error lists all.
pub fn named(name: &str) -> Result<&'static DeviceModel, String> {
    ALL.iter().find(|kind| kind.name == name).ok_or_else(|| {
        let known: Vec<&str> = ALL.iter().map(|kind| kind.name).collect();
        format!("there is no device `{name}`; there are {}", known.join(", "))
    })
}
