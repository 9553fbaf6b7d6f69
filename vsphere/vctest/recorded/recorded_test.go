package recorded

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"
)

// evidence matches the text that the source of a row must contain, by the row's certainty.
var evidence = map[string]*regexp.Regexp{
	"documented": regexp.MustCompile(`\S`),
	"recorded":   regexp.MustCompile(`recorded`),
	"reported":   regexp.MustCompile(`#\d+|oslo\.vmware`),
	"guessed":    regexp.MustCompile(`simulator|no source`),
}

// A row's certainty is that of its least certain part, and the page states the number of rows of each.
func TestTheDocumentSaysOfEachBeliefHowItIsKnownAndCountsThem(t *testing.T) {
	text, err := os.ReadFile("../../../docs/vcenter.md")
	must.Succeed(t, err)
	count, rows := map[string]int{}, 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "| ") || cells[1] == "known" {
			continue
		}
		if len(cells) != 5 || evidence[cells[1]] == nil {
			t.Errorf("a row has the cells belief, known, source, shown by, otherwise: %s", line)
			continue
		}
		rows++
		count[cells[1]]++
		if !evidence[cells[1]].MatchString(cells[2]) {
			t.Errorf("%s is no source of what is %s: %s", cells[2], cells[1], cells[0])
		}
		if cells[1] != "guessed" && evidence["guessed"].MatchString(strings.ReplaceAll(cells[2], "simulator's", "")) {
			t.Errorf("a part without a source is guessed: %s", cells[0])
		}
	}
	want := fmt.Sprintf("Of %d rows, %d are documented, %d recorded, %d reported and %d guessed.", rows, count["documented"], count["recorded"], count["reported"], count["guessed"])
	if !strings.Contains(strings.Join(strings.Fields(string(text)), " "), want) {
		t.Errorf("docs/vcenter.md does not say: %s", want)
	}
}

// Each belief that a recording is compared with must be a row of the page.
func TestEveryBeliefOfARecordingIsARowOfTheDocument(t *testing.T) {
	text, err := os.ReadFile("../../../docs/vcenter.md")
	must.Succeed(t, err)
	for _, row := range Rows() {
		if !strings.Contains(string(text), "\n| "+row) {
			t.Errorf("docs/vcenter.md has no row that begins with %q", row)
		}
	}
}

func TestARecordedTaskSaysWhenItWasQueuedStartedAndEnded(t *testing.T) {
	var body methods.RetrievePropertiesBody
	Body(t, "fog-vsphere/vcenter-6.7/finished-task.xml", &body)
	info, is := valueOf[types.TaskInfo](body.Res.Returnval[0], "info")
	if !is || info.State != types.TaskInfoStateSuccess || !slices.Contains(TaskKinds(t), info.DescriptionId) {
		t.Fatalf("the task is %+v, want one of a known kind that succeeded", info)
	}
	if info.StartTime == nil || info.CompleteTime == nil || !info.QueueTime.Before(*info.StartTime) || !info.StartTime.Before(*info.CompleteTime) {
		t.Errorf("queued %v, started %v, ended %v", info.QueueTime, info.StartTime, info.CompleteTime)
	}
}

// A snapshot changes a disk's file and contentId. The disk must still be known as the clone's own by its uuid and its file's name, whatever its
// directory.
func TestARecordedDiskHasOneUUIDThroughItsSnapshots(t *testing.T) {
	var body methods.RetrievePropertiesBody
	Body(t, "fog-vsphere/vcenter-8.0.3/disk-with-snapshots.xml", &body)
	devices, _ := valueOf[types.ArrayOfVirtualDevice](body.Res.Returnval[0], "config.hardware.device")
	top := disks.In(devices.VirtualDevice)[0].Backing.(*types.VirtualDiskFlatVer2BackingInfo)
	files, contents, base := map[string]bool{}, map[string]bool{}, top
	for link := top; link != nil; link = link.Parent {
		if link.Uuid == "" || link.Uuid != top.Uuid {
			t.Errorf("%s has the uuid %q, its child %q", link.FileName, link.Uuid, top.Uuid)
		}
		files[link.FileName], contents[link.ContentId], base = true, true, link
	}
	if len(files) != 4 || len(contents) != 4 {
		t.Errorf("want a disk and three snapshots' deltas, each with its own file and contentId: %v, %v", files, contents)
	}
	before := []types.BaseVirtualDevice{&types.VirtualDisk{VirtualDevice: types.VirtualDevice{Key: 2000, Backing: base}}}
	record := disks.Identify(disks.Keys(before), before, "")
	if foreign := disks.Foreign(devices.VirtualDevice, "[elsewhere] moved/VMware-Audit.vmx", record); len(foreign) > 0 {
		t.Errorf("with the record %s from before the snapshots, the VM's own disk is foreign", record)
	}
}
