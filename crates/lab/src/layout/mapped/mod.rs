//! Small objects in a file that is mapped into memory (Maltzahn, Chapters 4 and 5): no call names, opens or reads them, and the
//! pages come and go as the system sees fit.
//!
//! SQUIDM, SQUIDML and SQUIDMLA (Maltzahn 4.2.4.2 to 4.2.4.4): objects up to a page are segments of a mapped file, in the
//! order in which they come; larger ones are files.

mod mapping;
pub mod segments;

pub use mapping::Mapping;

use crate::layout::files::{CallSizes, Directories, Files};
use crate::layout::{Layout, Stored};
use crate::medium::{Failed, Medium};
use crate::notes::Notes;
use crate::object::Object;
use segments::{CLASSES, Packer, class_of};
use std::collections::HashMap;

pub struct Mapped {
    mapping: Mapping,
    packer: Packer,
    /// Segments of objects that are gone.
    freed: [Vec<u64>; CLASSES],
    places: HashMap<u64, u64>,
    files: Files,
}

impl Mapped {
    /// A mapped file of so many bytes. What finds no room there is a file, too.
    pub fn new(bytes: u64, directories: Directories, aligned: bool) -> Mapped {
        Mapped {
            mapping: Mapping::new(bytes),
            packer: Packer::new(bytes, aligned),
            freed: Default::default(),
            places: HashMap::new(),
            files: Files::new(directories, CallSizes::WHOLE),
        }
    }
}

impl Layout for Mapped {
    fn prepare(&mut self, medium: &mut dyn Medium) -> Result<(), Failed> {
        self.mapping.prepare(medium)?;
        self.files.prepare(medium)
    }

    fn write(&mut self, medium: &mut dyn Medium, object: &Object) -> Result<Stored, Failed> {
        let place = class_of(object).and_then(|class| {
            let freed = self.freed[class].pop();
            freed.or_else(|| self.packer.place(class))
        });
        let Some(at) = place else { return self.files.write(medium, object) };
        self.places.insert(object.id, at);
        self.mapping.store(medium, object, at)?;
        Ok(Stored::Yes)
    }

    fn read(&mut self, medium: &mut dyn Medium, object: &Object) -> Result<(), Failed> {
        match self.places.get(&object.id) {
            Some(at) => self.mapping.load(medium, object, *at),
            None => self.files.read(medium, object),
        }
    }

    fn delete(&mut self, medium: &mut dyn Medium, object: &Object) -> Result<(), Failed> {
        match (self.places.remove(&object.id), class_of(object)) {
            (Some(at), Some(class)) => {
                self.freed[class].push(at);
                Ok(())
            }
            _ => self.files.delete(medium, object),
        }
    }

    fn begin_notes(&mut self) {
        self.mapping.loads.fill(0);
    }

    fn notes(&self) -> Notes {
        Notes::from([("hits_in_first_quarter".into(), self.mapping.first_quarter(self.packer.end()))])
    }
}
