package plain

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/check"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
)

// recorded is the recording of a vCenter 8.0.1 (vSAN, NSX, DRS), in a directory beside the checkout. It comes from the test data of New Relic's
// nri-vsphere (Apache License 2.0).
const recorded = "../../../shared/recorded/vcenter-8.0.1-sddc.tar.gz"

// unpacked is the directory with the recorded objects.
func unpacked(t *testing.T) string {
	t.Helper()
	file, err := os.Open(recorded)
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("there is no recorded vCenter")
	}
	must.Succeed(t, err)
	defer func() { _ = file.Close() }()
	zipped, err := gzip.NewReader(file)
	must.Succeed(t, err)
	root, dir := t.TempDir(), ""
	for files := tar.NewReader(zipped); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		must.Succeed(t, err)
		path := filepath.Join(root, filepath.Clean("/"+h.Name))
		switch h.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(path, 0o755)
		case tar.TypeReg:
			var text []byte
			if text, err = io.ReadAll(files); err == nil {
				err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, text, 0o600))
			}
			if strings.HasPrefix(filepath.Base(path), "0000-ServiceInstance") {
				dir = filepath.Dir(path)
			}
		}
		must.Succeed(t, err)
	}
}

// recordedDir is the environment variable that tells the simulator's process where the recorded objects are.
const recordedDir = "VMGROUP_PLAIN_RECORDED"

// loadRecorded loads the recorded vCenter. With a single host, govmomi's emulation of vSAN refuses clones, as a vSAN with too few fault domains
// does; unless vsan is set, loadRecorded therefore turns the datastores into VMFS.
func loadRecorded(m *simulator.Model, vsan bool) error {
	if err := m.Load(os.Getenv(recordedDir)); err != nil {
		return err
	}
	if !vsan {
		for _, e := range m.Map().All("Datastore") {
			store := e.(*simulator.Datastore)
			store.Summary.Type = string(types.HostFileSystemVolumeFileSystemTypeVMFS)
		}
	}
	for _, e := range m.Map().All("VirtualMachine") {
		if vm := e.(*simulator.VirtualMachine); vm.Name == snapTemplate {
			vm.Config.Template, vm.Summary.Config.Template = true, true
			vm.Runtime.PowerState, vm.Summary.Runtime.PowerState = types.VirtualMachinePowerStatePoweredOff, types.VirtualMachinePowerStatePoweredOff
			vm.DisabledMethod = nil // the methods that were disabled because the recorded VM was running
		}
	}
	return nil
}

// snapTemplate is the recorded VM whose disk is a chain of seven, with an ISO in its CD-ROM drive. The tests make a template of it.
const snapTemplate = "test-snap"

func TestTheRecordedVCenterPassesTheCheck(t *testing.T) {
	p := start(t, "recorded", recordedDir+"="+unpacked(t))
	vc, err := vsphere.New(vsphere.Config{Config: p.settings(), Selection: inventory.Selection{Folder: "vm-operator"}})
	p.must(err)
	ok := 0
	check.Run(context.Background(), vc, check.Options{Templates: []string{snapTemplate}, Found: func(f check.Finding) {
		switch t.Logf("%s %s: %s → %s", f.Result, f.Check, f.Seen, f.Advice); f.Result {
		case check.Fail:
			t.Errorf("%s: %s", f.Check, f.Seen)
		case check.OK:
			ok++
		}
	}})
	if ok < 8 {
		t.Errorf("%d checks are OK, want at least 8", ok)
	}
}

func TestAGroupLivesOnTheRecordedVCenter(t *testing.T) {
	p := start(t, "recordedWithVMFS", recordedDir+"="+unpacked(t))
	g := p.serve(inventory.Selection{}, 2)
	g.Spec.Template, g.Spec.CPU, g.Spec.Memory = snapTemplate, 2, 2
	p.life(g)
}

func TestADeepCheckOfGovmomisSimulatorSaysThatItIsOneAndEndsSoon(t *testing.T) {
	p := start(t, "recorded", recordedDir+"="+unpacked(t))
	vc, err := vsphere.New(vsphere.Config{Config: p.settings(), Selection: inventory.Selection{Folder: "vm-operator"}})
	p.must(err)
	found := map[string]check.Finding{}
	began := time.Now()
	for _, f := range check.Run(context.Background(), vc, check.Options{Templates: []string{snapTemplate}, Deep: true}) {
		found[f.Check] = f
	}
	if f := found["simulator"]; f.Result != check.Warn || !strings.Contains(f.Seen, "govmomi's simulator") || !strings.Contains(f.Advice, "--simulator") {
		t.Errorf("the check of the simulator is %+v, want a warning that advises --simulator", f)
	}
	if f := found["deep: one name, one VM"]; f.Result != check.Fail || !strings.Contains(f.Advice, "usable fault domains") {
		t.Errorf("the check of the clone is %+v, want a failure for lack of fault domains", f)
	}
	f, took := found["deep: clean-up"], time.Since(began)
	if f.Result != check.Fail || !strings.Contains(f.Seen, "does not implement") || took >= time.Minute {
		t.Errorf("the check of the clean-up is %+v after %s, want a failure within a minute", f, took)
	}
}

// With one host, vSAN lacks fault domains. vCenter gives this cause not in the fault itself but in MethodFault.faultMessage.
func TestTheRecordedVCenterSaysWhyItRefusesAClone(t *testing.T) {
	p := start(t, "recorded", recordedDir+"="+unpacked(t))
	g := p.serve(inventory.Selection{}, 1)
	g.Spec.Template, g.Spec.CPU, g.Spec.Memory = snapTemplate, 2, 2
	a := p.until(g, "the clone is refused", func(a metacontroller.Answer) bool { return a.Status.Phase == v1alpha1.PhaseError })
	if !strings.Contains(a.Status.LastMessage, "usable fault domains") || !strings.Contains(a.Status.LastMessage, "#fileunavailable") {
		t.Errorf("the status says %q, want vCenter's cause and a link to #fileunavailable", a.Status.LastMessage)
	}
}
