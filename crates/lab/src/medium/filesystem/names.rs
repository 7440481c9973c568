//! Names in directories.

use super::FileSystem;
use super::fs_type::{Metadata, Names};
use crate::medium::{Dir, Failed};
use trace::random::mix;

impl FileSystem {
    /// Passes by the names of a directory up to one, or all.
    pub(super) fn search(&mut self, dir: Dir, name: Option<u64>) -> Result<(), Failed> {
        let directory = self.directory(dir)?;
        if self.fs_type.names == Names::Hashed {
            // The block that a new name goes to is looked at when it is entered.
            let block = name.and_then(|name| directory.entries.get(&name)).map(|(_, block)| *block as usize);
            let address = block.map(|block| self.inode(directory.file).map(|inode| inode.blocks[block]));
            address.transpose()?.into_iter().for_each(|address| self.load(address));
            return Ok(());
        }
        let last = match name {
            Some(name) => directory.entries.get(&name).map(|(_, block)| *block as usize),
            None => None,
        };
        let upto = last.map_or(directory.blocks.len(), |block| block + 1);
        let mut names: u64 = directory.blocks[..upto].iter().sum();
        if let Some(last) = last {
            names -= directory.blocks[last] / 2;
        }
        let addresses: Vec<u64> = self.inode(directory.file)?.blocks[..upto].to_vec();
        addresses.into_iter().for_each(|address| self.load(address));
        self.spend(names as f64 * self.host.name);
        Ok(())
    }

    /// Puts a name into the block of a directory that its hash names, or into the first that has room, and writes that.
    pub(super) fn enter(&mut self, dir: Dir, name: u64, entry: u32) -> Result<(), Failed> {
        let directory = self.directory(dir)?;
        let file = directory.file;
        let (names, count) = (self.fs_type.names(), directory.blocks.len() as u64);
        let has_room = |block: &usize| directory.blocks.get(*block).is_some_and(|held| *held < names);
        let named = match self.fs_type.names {
            Names::Hashed if count > 0 => Some((mix(name) % count) as usize).filter(has_room),
            _ => None,
        };
        let room = named.or_else(|| directory.blocks.iter().position(|held| *held < names));
        let block = match room {
            Some(block) => block,
            None => {
                let inode = self.inode(file)?;
                let (after, group) = (inode.blocks.last().copied(), inode.seat.group);
                let address = self.space.take_block(after, group).ok_or("the disk is full")?;
                self.change(self.space.map_of(self.space.group_of(address)));
                self.keep(address, true);
                self.inode_mut(file)?.blocks.push(address);
                self.directories[dir.0 as usize].blocks.push(0);
                self.directories[dir.0 as usize].blocks.len() - 1
            }
        };
        let inode = self.inode(file)?;
        let (address, own) = (inode.blocks[block], self.space.inode_block(inode.seat));
        self.change_now(address);
        if self.fs_type.metadata == Metadata::Now {
            self.change_now(own);
        }
        let directory = &mut self.directories[dir.0 as usize];
        directory.blocks[block] += 1;
        directory.entries.insert(name, (entry, block as u32));
        Ok(())
    }

    /// File and block of a name.
    pub(super) fn entry(&self, dir: Dir, name: u64) -> Result<(u32, u32), Failed> {
        let entry = self.directory(dir)?.entries.get(&name).copied();
        entry.ok_or_else(|| format!("there is no {name:x} in directory {}", dir.0))
    }

    /// Takes a name out of a directory, and writes its block; whose it was.
    pub(super) fn leave(&mut self, dir: Dir, name: u64) -> Result<u32, Failed> {
        let (file, block) = self.entry(dir, name)?;
        let address = self.inode(self.directory(dir)?.file)?.blocks[block as usize];
        let directory = &mut self.directories[dir.0 as usize];
        directory.entries.remove(&name);
        directory.blocks[block as usize] -= 1;
        self.change_now(address);
        Ok(file)
    }

    /// A file that no name leads to any more.
    pub(super) fn free(&mut self, file: u32) -> Result<(), Failed> {
        let inode = self.files[file as usize].take().ok_or("a name without a file")?;
        self.free_files.push(file);
        let inode_block = self.space.inode_block(inode.seat);
        // An inode gives up its blocks on disk before they are free.
        match inode.blocks.is_empty() {
            true => self.change(inode_block),
            false => self.change_now(inode_block),
        }
        self.space.leave(inode.seat);
        self.change(self.space.map_of(inode.seat.group));
        let last = inode.blocks.len().saturating_sub(1);
        for (nth, address) in inode.blocks.into_iter().enumerate() {
            let dirty = self.pages.remove(&(file, nth as u32)) == Some(true);
            self.dirty -= u64::from(dirty);
            self.change(self.space.map_of(self.space.group_of(address)));
            self.space.give(address, if nth == last { inode.tail } else { self.fs_type.fragments() });
        }
        for address in inode.indirect {
            self.metadata.remove(&address);
            self.space.give(address, self.fs_type.fragments());
        }
        Ok(())
    }
}
