package disks

import (
	"slices"
	"testing"

	"github.com/vmware/govmomi/vim25/types"
)

// disk is a disk with a key, a uuid, and the files of itself and of its parents.
func disk(key int32, uuid string, files ...string) *types.VirtualDisk {
	var b *types.VirtualDiskFlatVer2BackingInfo
	for _, file := range slices.Backward(files) {
		b = &types.VirtualDiskFlatVer2BackingInfo{Uuid: uuid, Parent: b,
			VirtualDeviceFileBackingInfo: types.VirtualDeviceFileBackingInfo{FileName: file}}
	}
	return &types.VirtualDisk{VirtualDevice: types.VirtualDevice{Key: key, Backing: b}}
}

func foreign(record string, disks ...*types.VirtualDisk) (files []string) {
	devices := []types.BaseVirtualDevice{&types.VirtualCdrom{}}
	for _, d := range disks {
		devices = append(devices, d)
	}
	for _, d := range Foreign(devices, "[ds] web-0/web-0.vmx", record) {
		files = append(files, File(d))
	}
	return files
}

func TestWithoutARecordDirectoriesShowOwnDisks(t *testing.T) {
	volume := disk(2004, "", "[ds] web-0/volume.vmdk")
	volume.VDiskId = &types.ID{Id: "a volume"}
	for _, record := range []string{"", "no record", "2999"} {
		got := foreign(record, disk(2000, "u", "[ds] web-0/web-0.vmdk"), disk(2001, "u", "[ds] web-0/web-0-000001.vmdk", "[ds] ubuntu/ubuntu.vmdk"),
			disk(2002, "u", "[ds] fcd/1.vmdk"), disk(2003, "u", "[ds2] web-0/web-0.vmdk"), volume, disk(2005, "u", ""))
		if want := []string{"[ds] fcd/1.vmdk", "[ds2] web-0/web-0.vmdk", "[ds] web-0/volume.vmdk"}; !slices.Equal(got, want) {
			t.Errorf("with the record %q, the foreign disks are %q, not %q", record, got, want)
		}
	}
}

func TestADiskThatTheCloneMadeIsOwnWhereverItIs(t *testing.T) {
	const record = "2000=mine 2001=mine-too"
	moved := disk(2000, "mine", "[ds2] moved/web-0-000001.vmdk", "[ds2] moved/web-0.vmdk")
	if got := foreign(record, moved, disk(2016, "mine-too", "[ds3] x/web-0_1.vmdk")); got != nil {
		t.Errorf("the foreign disks are %q", got)
	}
	inItsPlace := disk(2000, "another's", "[ds2] web-0/web-0.vmdk")
	if got := foreign(record, inItsPlace, disk(2001, "mine-too", "[ds] web-0/web-0_1.vmdk")); !slices.Equal(got, []string{"[ds2] web-0/web-0.vmdk"}) {
		t.Errorf("the foreign disks are %q; want %q", got, []string{"[ds2] web-0/web-0.vmdk"})
	}
	moved.VDiskId = &types.ID{Id: "a volume by now"}
	if got := foreign(record, moved); len(got) != 1 {
		t.Error("a first-class disk counts as the VM's own")
	}
}

func TestADiskKnownOnlyByItsKeyIsOwnInTheVMsDirectoryAlone(t *testing.T) {
	for file, own := range map[string]bool{
		"[ds] web-0/web-0.vmdk":  true,
		"[ds2] web-0/web-0.vmdk": false, // may be that of another web-0
		"[ds2] other/web-0.vmdk": false,
		"[ds] other/other.vmdk":  false,
	} {
		if got := foreign("2000 2001", disk(2000, "u", file)); (got == nil) != own {
			t.Errorf("%s: the foreign disks are %q", file, got)
		}
	}
	if got := foreign("2000 2001", disk(2000, "u", "[ds] web-0/web-0.vmdk"), disk(2002, "u", "[ds2] web-0/web-0.vmdk")); len(got) != 1 {
		t.Error("a disk that was attached later counts as the VM's own")
	}
	if got := foreign("2000", disk(2000, "u", "[ds] web-0/web-0-000001.vmdk", "[ds] ubuntu/ubuntu.vmdk")); got != nil {
		t.Errorf("of a linked clone, the foreign disks are %q", got)
	}
}

func TestADiskFromElsewhereIsForeignThoughItsDeltaIsInTheVMsDirectory(t *testing.T) {
	attached := disk(2001, "theirs", "[ds] web-0/data-000001.vmdk", "[ds] data/data.vmdk")
	for _, record := range []string{"2000", "2000=mine"} {
		got := foreign(record, disk(2000, "mine", "[ds] web-0/web-0-000001.vmdk", "[ds] web-0/web-0.vmdk"), attached)
		if !slices.Equal(got, []string{"[ds] web-0/data-000001.vmdk"}) {
			t.Errorf("with the record %q, the foreign disks are %q; want %q", record, got, []string{"[ds] web-0/data-000001.vmdk"})
		}
	}
	if !IsDelta(attached) || Base(attached) != "[ds] data/data.vmdk" {
		t.Errorf("IsDelta is %t, and the base is %q; want true, and [ds] data/data.vmdk", IsDelta(attached), Base(attached))
	}
}

// Storage vMotion of a VM also moves disks that its clone did not make, and names their files after the VM. A disk that an operator adds has
// such a file, too.
func TestADiskThatCameLaterIsForeignInTheVMsDirectoryToo(t *testing.T) {
	for _, record := range []string{"2000", "2000=mine"} {
		for uuid, file := range map[string]string{"theirs": "[ds] web-0/web-0_1.vmdk", "mine": "[ds2] web-0/web-0.vmdk"} {
			if got := foreign(record, disk(2000, "mine", "[ds] web-0/web-0.vmdk"), disk(2001, uuid, file)); !slices.Equal(got, []string{file}) {
				t.Errorf("with the record %q, the foreign disks are %q; want %q", record, got, []string{file})
			}
		}
	}
}

// Linked clones of one template have its disks' uuids.
func TestADiskOfASiblingIsForeignThoughItHasTheUUIDOfTheOwn(t *testing.T) {
	own := disk(2000, "template's", "[ds] web-0/web-0.vmdk", "[ds] ubuntu/ubuntu.vmdk")
	theirs := []string{"[ds] web-1/web-1.vmdk", "[ds] ubuntu/ubuntu.vmdk"}
	for what, disks := range map[string][]*types.VirtualDisk{
		"beside the own":                       {own, disk(2001, "template's", theirs...)},
		"beside the own, moved":                {disk(2000, "template's", "[ds2] f7a1/web-0.vmdk"), disk(2001, "template's", theirs...)},
		"under another key than the own had":   {disk(2001, "template's", theirs...)},
		"instead of the own":                   {disk(2000, "template's", theirs...)},
		"of the same name in another folder":   {own, disk(2001, "template's", "[ds] web-0_1/web-0.vmdk", "[ds] ubuntu/ubuntu.vmdk")},
		"with its delta in the VM's directory": {own, disk(2001, "template's", append([]string{"[ds] web-0/web-1-000001.vmdk"}, theirs...)...)},
		"whose VM has a longer name":           {own, disk(2001, "template's", "[ds] web-01/web-01.vmdk")},
	} {
		want := File(disks[len(disks)-1])
		if got := foreign("2000=template's", disks...); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: the foreign disks are %q; want %q", what, got, []string{want})
		}
	}
}

// Two VMs of one name in different folders have the same names of files, in different directories; those of linked clones have the same uuids, too.
func TestADiskOfAVMOfTheSameNameIsForeign(t *testing.T) {
	own := []*types.VirtualDisk{disk(2000, "first", "[ds] web-0/web-0.vmdk", "[ds] ubuntu/ubuntu.vmdk"), disk(2001, "second", "[ds] web-0/web-0_1.vmdk", "[ds] ubuntu/ubuntu_1.vmdk")}
	record := Identify("2000 2001", []types.BaseVirtualDevice{own[0], own[1]}, "[ds] web-0/web-0.vmx")
	full := Identify("2000", []types.BaseVirtualDevice{disk(2000, "first", "[ds] web-0/web-0.vmdk")}, "[ds] web-0/web-0.vmx")
	for what, c := range map[string]struct {
		record string
		disks  []*types.VirtualDisk // the last one is the other VM's
	}{
		"instead of the own":                          {record, []*types.VirtualDisk{own[1], disk(2000, "first", "[ds] web-0_1/web-0.vmdk", "[ds] ubuntu/ubuntu.vmdk")}},
		"instead of the second":                       {record, []*types.VirtualDisk{own[0], disk(2001, "second", "[ds] web-0_1/web-0_1.vmdk", "[ds] ubuntu/ubuntu_1.vmdk")}},
		"under another key":                           {record, []*types.VirtualDisk{own[1], disk(2005, "first", "[ds2] web-0/web-0.vmdk", "[ds] ubuntu/ubuntu.vmdk")}},
		"moved, so that it is no delta any more":      {record, []*types.VirtualDisk{own[1], disk(2000, "first", "[ds2] web-0/web-0.vmdk")}},
		"known only by its key, on another datastore": {"2000", []*types.VirtualDisk{disk(2000, "theirs", "[ds2] web-0/web-0.vmdk")}},
		"a full clone's":                              {full, []*types.VirtualDisk{disk(2000, "theirs", "[ds2] web-0/web-0.vmdk")}},
	} {
		want := File(c.disks[len(c.disks)-1])
		if got := foreign(c.record, c.disks...); !slices.Equal(got, []string{want}) {
			t.Errorf("%s, with the record %q: the foreign disks are %q; want %q", what, c.record, got, want)
		}
	}
	if got := foreign(record, own...); got != nil {
		t.Errorf("with the record %q, the foreign disks are %q; want none", record, got)
	}
	if got := foreign(full, disk(2000, "first", "[ds2] web-0/web-0.vmdk")); got != nil {
		t.Errorf("of a full clone whose disk was moved, the foreign disks are %q; want none", got)
	}
}

// The disks of a clone whose source has disks on several datastores are on several, too.
func TestTheDisksOfACloneOnSeveralDatastoresAreOwn(t *testing.T) {
	record := Keys([]types.BaseVirtualDevice{disk(2000, "a", "[ds] ubuntu/ubuntu.vmdk"), disk(2001, "b", "[ds2] ubuntu/ubuntu.vmdk")})
	if !Scattered(record) || Identified(record) || Count(record) != 2 {
		t.Errorf("the record is %q: scattered %t, identified %t, %d disks; want true, false, and 2", record, Scattered(record), Identified(record), Count(record))
	}
	for what, disks := range map[string][]*types.VirtualDisk{
		"full":   {disk(2000, "a", "[ds] web-0/web-0.vmdk"), disk(2001, "b", "[ds2] web-0/web-0.vmdk")},
		"linked": {disk(2000, "a", "[ds] web-0/web-0.vmdk", "[ds] ubuntu/ubuntu.vmdk"), disk(2001, "b", "[ds2] web-0/web-0.vmdk", "[ds2] ubuntu/ubuntu.vmdk")},
	} {
		identified := Identify(record, []types.BaseVirtualDevice{disks[0], disks[1]}, "[ds] web-0/web-0.vmx")
		if got := foreign(identified, disks...); got != nil || Scattered(identified) || !Identified(identified) {
			t.Errorf("%s, with the record %q: the foreign disks are %q; want none", what, identified, got)
		}
	}
}

// Storage vMotion moves whatever is attached to an adopted VM into its directory.
func TestAnAdoptedVMsDisksAreThoseThatItHadInItsDirectory(t *testing.T) {
	own, moved := disk(2000, "own", "[ds] web-0/imported-disk-0.vmdk"), disk(2001, "theirs", "[ds2] data/data.vmdk")
	record := Adopted([]types.BaseVirtualDevice{own, moved}, "[ds] web-0/web-0.vmx", "")
	if got := foreign(record, own, disk(2001, "theirs", "[ds] web-0/web-0_1.vmdk")); !slices.Equal(got, []string{"[ds] web-0/web-0_1.vmdk"}) {
		t.Errorf("with the record %q, the foreign disks are %q; want the one that was moved into the directory", record, got)
	}
	nothing := Adopted([]types.BaseVirtualDevice{moved}, "[ds] web-0/web-0.vmx", "")
	if got := foreign(nothing, disk(2001, "theirs", "[ds] web-0/web-0_1.vmdk")); len(got) != 1 {
		t.Errorf("with the record %q, the foreign disks are %q; want the only one", nothing, got)
	}
	if got := First(nothing, []types.BaseVirtualDevice{moved}); got != moved {
		t.Errorf("the first disk is %v; want the only one", got)
	}
	if got := Adopted([]types.BaseVirtualDevice{own}, "[ds] web-0/web-0.vmx", "2000=former"); got != "2000=former" {
		t.Errorf("the record of a former group became %q", got)
	}
}

// For a disk that a snapshot holds, the message must name a linked clone's own disk, and not the template's.
func TestTheBaseOfADiskIsWhatItsSnapshotsAreDeltasOf(t *testing.T) {
	linked := disk(2000, "u", "[ds] web-0/web-0_1-000002.vmdk", "[ds] web-0/web-0_1-000001.vmdk", "[ds] web-0/web-0_1.vmdk", "[ds] ubuntu/ubuntu.vmdk")
	if got := Base(linked); got != "[ds] web-0/web-0_1.vmdk" {
		t.Errorf("got the base %q; want [ds] web-0/web-0_1.vmdk", got)
	}
	if got := Base(disk(2000, "u", "[ds] a/a-000001.vmdk")); got != "[ds] a/a-000001.vmdk" {
		t.Errorf("got the base %q; want [ds] a/a-000001.vmdk", got)
	}
}

func TestARecordHasTheKeysOfTheSourceAndThenTheUUIDsOfTheClone(t *testing.T) {
	record := Keys([]types.BaseVirtualDevice{disk(2000, "source", "[ds] a/a.vmdk"), &types.VirtualCdrom{}, disk(2001, "source", "[ds] a/b.vmdk")})
	if record != "2000 2001" {
		t.Errorf("got the record %q; want the keys 2000 2001", record)
	}
	devices := []types.BaseVirtualDevice{disk(2000, "one", "[ds] w/w.vmdk"), disk(2001, "", "[ds] w/w_1.vmdk"), disk(2002, "two", "[ds] x/x.vmdk")}
	for was, want := range map[string]string{record: "2000=one 2001", "": "", "2005": "2005"} {
		if got := Identify(was, devices, "[ds] w/w.vmx"); got != want {
			t.Errorf("%q became %q, not %q", was, got, want)
		}
	}
}
