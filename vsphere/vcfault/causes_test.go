package vcfault

import (
	"strings"
	"testing"

	"github.com/vmware/govmomi/vim25/types"
)

// messages adds messages to a fault, as vCenter does (MethodFault.faultMessage).
func messages(f types.BaseMethodFault, texts ...string) types.BaseMethodFault {
	for _, text := range texts {
		m := f.GetMethodFault()
		m.FaultMessage = append(m.FaultMessage, types.LocalizableMessage{Key: "msg.x", Message: text})
	}
	return f
}

func causedBy(f, cause types.BaseMethodFault, text string) types.BaseMethodFault {
	f.GetMethodFault().FaultCause = &types.LocalizedMethodFault{Fault: cause, LocalizedMessage: text}
	return f
}

// vCenter puts causes into faultMessage (vmware/vic#7634, #8040), and into the faultMessage of causes.
func TestTheCauseThatVCenterNamesIsShown(t *testing.T) {
	const vsan = "1 usable fault domains. The operation requires 2 more."
	for name, c := range map[string]struct {
		fault types.BaseMethodFault
		text  string
		want  string
	}{
		"beside a fault without words":     {messages(&types.CannotCreateFile{}, vsan), "*types.CannotCreateFile", "vCenter says: " + vsan},
		"beside a fault with words":        {messages(&types.CannotCreateFile{}, vsan), "Cannot create the file", "vCenter says: Cannot create the file. " + vsan},
		"beside a fault with our words":    {messages(&types.HostCommunication{}, "no route"), "x", "vCenter cannot reach the host: check the host's connection. vCenter says: no route"},
		"the chain of causes":              {causedBy(&types.VmConfigFault{}, causedBy(&types.NotSupported{}, messages(&types.SystemError{}, "why"), "deeper"), "deep"), "outer", "vCenter says: outer. deep. deeper. why"},
		"the same words twice":             {causedBy(&types.NotSupported{}, messages(&types.NotSupported{}, "It is so."), "It is so"), "It is so.", "vCenter says: It is so."},
		"a reason in a field":              {&types.SystemError{Reason: "vpxd ended"}, "A general system error occurred", "vCenter says: A general system error occurred. vpxd ended"},
		"nothing at all":                   {&types.NotSupported{}, "", "vCenter says: this is not supported for that object, by that host or by this version of vSphere (NotSupported)."},
		"each host's reason, in any order": {&types.NoCompatibleHost{Error: []types.LocalizedMethodFault{{Fault: &types.VmConfigFault{}, LocalizedMessage: "b"}, {Fault: &types.VmConfigFault{}, LocalizedMessage: "a"}}}, "none", "No host can run the VM: check whether hosts are in maintenance mode or lack the template's networks and datastores. vCenter says: a. b"},
	} {
		if e := Classify("clone", byTask(c.fault, c.text)); e.Message != c.want {
			t.Errorf("%s: %q; want %q", name, e.Message, c.want)
		}
	}
}

func TestACauseHasNoValuesThatChangeFromTryToTry(t *testing.T) {
	tries := [2]string{}
	for i, v := range []map[string]string{
		{"vm": "vm-991", "uuid": "f1e6a863-d0a9-9cf7-4b58-246e96b1a3d4", "at": "2026-11-25T15:42:12.123Z", "pid": "2039393", "ptr": "0x7f12", "mb": "512"},
		{"vm": "vm-1002", "uuid": "a1e6a863-d0a9-9cf7-4b58-246e96b1a3d4", "at": "2026-11-25T15:42:19Z", "pid": "2039412", "ptr": "0x7f99aa", "mb": "498"},
	} {
		text := "Failed for 'vim.VirtualMachine:" + v["vm"] + "' in [vsan] " + v["uuid"] + "/a.vmdk at " + v["at"] + " by process " + v["pid"] + " at " + v["ptr"] + "."
		full := Classify("", byTask(messages(&types.InsufficientMemoryResourcesFault{}, "only "+v["mb"]+" MB are left"), "x")).Message
		tries[i] = Classify("", byTask(messages(&types.CannotCreateFile{}, text), "y")).Message + full
	}
	if tries[0] != tries[1] {
		t.Errorf("%q and %q", tries[0], tries[1])
	}
}

func TestALongCauseIsBoundedAndKeepsItsEnds(t *testing.T) {
	texts := []string{"Failed to start the virtual machine"}
	for range 50 {
		texts = append(texts, strings.Repeat(string(rune('a'+len(texts)%26)), 40+len(texts)))
	}
	texts = append(texts, "Failed to lock the file")
	got := Classify("", byTask(messages(&types.GenericVmConfigFault{}, texts...), "outer")).Message
	if len(got) > messageMax+100 || !strings.HasPrefix(got, "vCenter says: outer") || !strings.HasSuffix(got, "Failed to lock the file") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	if got := Classify("", byTask(messages(&types.GenericVmConfigFault{}, strings.Repeat("é", 1<<20)), "outer")).Message; len(got) > messageMax+100 {
		t.Errorf("%d bytes; want at most %d", len(got), messageMax+100)
	}
}
