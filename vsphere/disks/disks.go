package disks

import (
	"cmp"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"
)

// In returns the virtual disks among devices.
func In(devices []types.BaseVirtualDevice) []*types.VirtualDisk {
	var all []*types.VirtualDisk
	for _, device := range devices {
		if disk, is := device.(*types.VirtualDisk); is {
			all = append(all, disk)
		}
	}
	return all
}

// Keys records the disks of a clone's source for the clone's stamp: "2000 2001". A clone's disks have the keys of its
// source's (RelocateSpec.disk names them by these); their uuids are known only after the clone. If the source's disks are on several datastores, those of the
// clone can be, too, and the directory of its .vmx file doesn't show that they are its own: "2000= 2001=" (Scattered).
func Keys(source []types.BaseVirtualDevice) string {
	var record []string
	datastores := map[string]bool{}
	for _, disk := range In(source) {
		record = append(record, strconv.Itoa(int(disk.Key)))
		if links := chain(disk.Backing); len(links) > 0 {
			datastores[links[0].file.Datastore] = true
		}
	}
	if len(datastores) > 1 {
		return strings.Join(record, "= ") + "="
	}
	return strings.Join(record, " ")
}

// Identify adds the disks' uuids to a record: "2000=6000C29e-… 2001=6000C296-…". The disks of a linked clone have the uuids of their parents, as those of its
// siblings have, so such an entry is for a directory, too: that of vmx, the VM's .vmx file, "2000=6000C29e-…/", or another one,
// "2001=6000C296-…/LocalDS_1%2Fweb-0". Identify must be called before a disk is added to the clone, or removed from it.
func Identify(record string, devices []types.BaseVirtualDevice, vmx string) string {
	made := read(record)
	var home object.DatastorePath
	home.FromString(vmx)
	var identified []string
	for _, disk := range In(devices) {
		if _, recorded := made[disk.Key]; !recorded {
			continue
		}
		entry := strconv.Itoa(int(disk.Key))
		if links := chain(disk.Backing); len(links) > 0 && links[0].uuid != "" {
			entry += "=" + links[0].uuid
			if at := links[0].directory(); !within(links, at) {
				if entry += "/"; at != directoryOf(home) {
					entry += url.PathEscape(at)
				}
			}
		}
		identified = append(identified, entry)
	}
	if len(identified) == 0 {
		return record
	}
	return strings.Join(identified, " ")
}

// Adopted records the disks that a VM has when it is adopted: those that are its own by record, the one of the stamp that it has so far; without one, those in
// the directory of vmx, its .vmx file. Nothing shows whether other VMs' disks have their uuids, so they are the VM's own only there.
func Adopted(devices []types.BaseVirtualDevice, vmx, record string) string {
	if record != "" {
		return record
	}
	foreign := Foreign(devices, vmx, record)
	var adopted []string
	for _, disk := range In(devices) {
		if slices.Contains(foreign, disk) {
			continue
		}
		entry := strconv.Itoa(int(disk.Key))
		if uuid := UUID(disk); uuid != "" {
			entry += "=" + uuid + "/"
		}
		adopted = append(adopted, entry)
	}
	return cmp.Or(strings.Join(adopted, " "), none)
}

// none is the record of a VM without disks of its own. No disk has such a key or uuid.
const none = "0=none"

// Identified reports whether a record has uuids or no disks.
func Identified(record string) bool {
	for _, e := range read(record) {
		if e.uuid != "" {
			return true
		}
	}
	return record == ""
}

// Scattered reports whether a record is one without uuids of disks that can be on several datastores.
func Scattered(record string) bool { return strings.Contains(record, "=") && !Identified(record) }

// Count is how many disks a record has.
func Count(record string) int { return len(read(record)) }

// NamedHome reports whether the directory of a VM's .vmx file has the VM's name, as on VMFS and NFS, so that the directory of a moved disk
// shows to which VM the disk belongs. On vSAN and vVols, directories have ids as names.
func NamedHome(vmx string) bool {
	var file object.DatastorePath
	if !file.FromString(vmx) {
		return false
	}
	base := path.Base(file.Path)
	name := strings.TrimSuffix(base, path.Ext(base))
	return name != "" && strings.HasPrefix(path.Base(path.Dir(file.Path)), name)
}

// Lacking returns the keys in a record for which a VM has no disk, or only a first-class one.
func Lacking(record string, devices []types.BaseVirtualDevice) (keys []int32) {
	all := In(devices)
	for key := range read(record) {
		if !slices.ContainsFunc(all, func(disk *types.VirtualDisk) bool { return disk.Key == key && disk.VDiskId == nil }) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// made are the disks that a clone made, or that an adopted VM had, by key.
type made map[int32]identity

// identity is what is recorded of a disk: its uuid, empty if unknown. If other VMs' disks can have that uuid, shared is set, and the disk is the VM's own only
// in the directory of its .vmx file, or in the directory at.
type identity struct {
	uuid   string
	shared bool
	at     string
}

// read parses a record. It returns nil for a text that is not a record.
func read(record string) made {
	m := made{}
	for _, text := range strings.Fields(record) {
		text, rest, _ := strings.Cut(text, "=")
		key, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return nil
		}
		var e identity
		e.uuid, e.at, e.shared = strings.Cut(rest, "/")
		if e.at, err = url.PathUnescape(e.at); err != nil {
			return nil
		}
		m[int32(key)] = e
	}
	return m
}

// Foreign returns the disks that the VM's clone did not make: another VM's, one that an operator added, or a Kubernetes volume (these are
// first-class disks, and have an id). vmx is the VM's .vmx file, and record the disks in the VM's stamp.
//
// Neither a uuid nor a name shows to which VM a disk belongs. A linked clone's disks have the uuids of its source's (govmomi#1682), and so
// have the disks of its siblings, also of one with the same name in another folder, whose files have the same names in another directory; full clones made at
// the same time can share theirs (KB 2006865). Storage vMotion of a VM moves all disks that
// are attached to it into its directory. In doubt a disk is foreign, so that it is kept.
//
//	first-class                         foreign
//	no record, or one without uuids,    own if its file is in the VM's directory. So disks that a clone has on other datastores, because its
//	and no disk has a key in it         template's disks are on several, are kept by mistake
//	its uuid is in the record (but if the VM has another disk of that uuid, only under the recorded key):
//	  in the VM's directory             own, if its file is named after the VM, or all the files of which it is a delta are in that directory, too
//	  elsewhere                         own if its file is named after the VM and, for a uuid that others can have, in the directory of the record
//	its key is in the record, and one   own in the VM's directory, if its file is named after the VM
//	of both uuids is unknown
//	else                                foreign
//
// So a disk that Storage vMotion moves alone is kept if it is a linked clone's, or if its uuid was not recorded.
func Foreign(devices []types.BaseVirtualDevice, vmx, record string) []*types.VirtualDisk {
	var home object.DatastorePath
	if !home.FromString(vmx) {
		return nil
	}
	all, m := In(devices), read(record)
	if !Identified(record) && !slices.ContainsFunc(all, func(disk *types.VirtualDisk) bool { _, recorded := m[disk.Key]; return recorded }) {
		m = nil
	}
	uuids := map[string]int{}
	for _, disk := range all {
		uuids[UUID(disk)]++
	}
	return slices.DeleteFunc(slices.Clone(all), func(disk *types.VirtualDisk) bool {
		links := chain(disk.Backing)
		return len(links) == 0 || disk.VDiskId == nil && m.own(disk.Key, links, home, uuids[UUID(disk)] == 1)
	})
}

// own reports whether a disk is the VM's own, by its files. alone reports whether no other disk of the VM has its uuid.
func (m made) own(key int32, links []link, home object.DatastorePath, alone bool) bool {
	top := links[0]
	at, named := top.directory(), namedAfter(home.Path, top.file.Path)
	atHome := at == directoryOf(home)
	if len(m) == 0 {
		return atHome
	}
	if e, recorded := m.of(key, top.uuid, alone); recorded {
		if atHome {
			return named || within(links, at)
		}
		return named && (!e.shared || at == e.at)
	}
	e, recorded := m[key]
	return recorded && (e.uuid == "" || top.uuid == "") && atHome && named
}

// of returns the entry with a disk's uuid.
func (m made) of(key int32, uuid string, alone bool) (identity, bool) {
	if e := m[key]; uuid == "" || e.uuid == uuid {
		return e, uuid != ""
	}
	for _, e := range m {
		if alone && e.uuid == uuid {
			return e, true
		}
	}
	return identity{}, false
}

// within reports whether all files of a disk are in a directory.
func within(links []link, directory string) bool {
	return !slices.ContainsFunc(links, func(l link) bool { return l.directory() != directory })
}

// directoryOf returns the directory of a file, with its datastore.
func directoryOf(file object.DatastorePath) string {
	return path.Join(file.Datastore, path.Dir(file.Path))
}

// namedAfter reports whether a disk's file has the name that vCenter derives from its VM's, which the VM's .vmx file has, too: "web-0.vmdk",
// "web-0_1.vmdk", and of a snapshot "web-0-000001.vmdk".
func namedAfter(vmx, disk string) bool {
	name := strings.TrimSuffix(path.Base(vmx), path.Ext(vmx))
	suffix, is := strings.CutPrefix(path.Base(disk), name)
	return is && name != "" && diskSuffix.MatchString(suffix)
}

var (
	diskSuffix = regexp.MustCompile(`^(_[0-9]+)?(-[0-9]{6})?\.vmdk$`)
	deltaName  = regexp.MustCompile(`-[0-9]{6}\.vmdk$`)
)

// UUID returns a disk's uuid, which the guest sees, too; empty if vCenter returns none.
func UUID(disk *types.VirtualDisk) string {
	uuid, _, _ := contentOf(disk.Backing)
	return uuid
}

// First returns the VM's disk with the lowest key in a record or, without a record, the disk with the lowest key of all. It is nil if the VM
// does not have that disk.
func First(record string, devices []types.BaseVirtualDevice) *types.VirtualDisk {
	all, m := In(devices), read(record)
	delete(m, 0) // none
	slices.SortFunc(all, func(a, b *types.VirtualDisk) int { return cmp.Compare(a.Key, b.Key) })
	if len(m) > 0 {
		key := slices.Min(slices.Collect(maps.Keys(m)))
		all = slices.DeleteFunc(all, func(d *types.VirtualDisk) bool {
			uuid := m[key].uuid
			return uuid != "" && UUID(d) != uuid || uuid == "" && d.Key != key
		})
	}
	if len(all) == 0 {
		return nil
	}
	return all[0]
}

// IsDelta reports whether a disk is a delta of another file: of the file in a snapshot, or of the file that it was cloned from.
func IsDelta(disk *types.VirtualDisk) bool { return len(chain(disk.Backing)) > 1 }

// Encrypted reports whether a disk is encrypted.
func Encrypted(disk *types.VirtualDisk) bool {
	switch b := disk.Backing.(type) {
	case *types.VirtualDiskFlatVer2BackingInfo:
		return b.KeyId != nil
	case *types.VirtualDiskSeSparseBackingInfo:
		return b.KeyId != nil
	}
	return false
}

// File returns a disk's file; empty if it has none.
func File(disk *types.VirtualDisk) string {
	if links := chain(disk.Backing); len(links) > 0 {
		return links[0].file.String()
	}
	return ""
}

// Base returns the file on which the files of a disk's snapshots are based; the disk's own file if it has no snapshots.
func Base(disk *types.VirtualDisk) string {
	links := chain(disk.Backing)
	for _, l := range links {
		if !deltaName.MatchString(l.file.Path) {
			return l.file.String()
		}
	}
	return File(disk)
}

// link is one file of a disk.
type link struct {
	file object.DatastorePath
	uuid string
}

func (l link) directory() string { return directoryOf(l.file) }

// chain returns the files of a disk: its own, and then those of which it is a delta. vCenter returns the same uuid for all of them, because
// the guest sees it, also for the files of a linked clone's source (govmomi#1682).
func chain(backing types.BaseVirtualDeviceBackingInfo) (links []link) {
	for len(links) < maxChain {
		info, is := backing.(types.BaseVirtualDeviceFileBackingInfo)
		if !is {
			break
		}
		var l link
		if !l.file.FromString(info.GetVirtualDeviceFileBackingInfo().FileName) {
			break
		}
		l.uuid, backing = parent(backing)
		if links = append(links, l); backing == nil {
			break
		}
	}
	return links
}

// maxChain bounds the files of a disk; vSphere allows 32 snapshots in a chain.
const maxChain = 256

// parent returns a backing's uuid, and the backing of which it is a delta; nil if it is not a delta.
func parent(backing types.BaseVirtualDeviceBackingInfo) (uuid string, of types.BaseVirtualDeviceBackingInfo) {
	switch b := backing.(type) {
	case *types.VirtualDiskFlatVer2BackingInfo:
		if b.Parent != nil {
			of = b.Parent
		}
		return b.Uuid, of
	case *types.VirtualDiskSeSparseBackingInfo:
		if b.Parent != nil {
			of = b.Parent
		}
		return b.Uuid, of
	case *types.VirtualDiskSparseVer2BackingInfo:
		if b.Parent != nil {
			of = b.Parent
		}
		return b.Uuid, of
	case *types.VirtualDiskRawDiskMappingVer1BackingInfo:
		if b.Parent != nil {
			of = b.Parent
		}
		return b.Uuid, of
	}
	return "", nil
}
