package session

import (
	"context"
	"maps"
	"testing"

	"github.com/rs/zerolog"
	pbmmethods "github.com/vmware/govmomi/pbm/methods"
	pbmtypes "github.com/vmware/govmomi/pbm/types"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest/recorded"
)

// on803, on55 and on65 are the answers of recorded vCenters to a login.
var (
	on803 = map[string][]string{
		"RetrieveServiceContent": {"pyvmomi/vcenter-8.0.3-login/RetrieveServiceContent.xml"}, "Login": {"pyvmomi/vcenter-8.0.3-login/Login.xml"}}
	on55 = map[string][]string{
		"RetrieveServiceContent": {"manageiq/vcenter-5.5-login/RetrieveServiceContent.xml"}, "Login": {"manageiq/vcenter-5.5-login/Login.xml"}}
	on65 = map[string][]string{
		"RetrieveServiceContent": {"pyvmomi/vcenter-6.5-pbm/0-RetrieveServiceContent.xml"}, "Login": {"pyvmomi/vcenter-6.5-pbm/1-Login.xml"}}
)

// replay logs in to a server that sends the recorded answers.
func replay(t *testing.T, login map[string][]string, more map[string][]string) (*Client, *Session, error) {
	t.Helper()
	all := maps.Clone(login)
	maps.Copy(all, more)
	all["Logout"] = login["Login"] // the client ignores the answer
	c, err := New(Config{Host: recorded.Serve(t, all), User: "u", Password: "p", Insecure: true, Log: zerolog.Nop()})
	must.Succeed(t, err)
	t.Cleanup(func() { c.Logout(context.Background()) })
	s, err := c.Session(t.Context())
	return c, s, err
}

func TestALoginAtRecordedVCenters(t *testing.T) {
	for name, login := range map[string]map[string][]string{"8.0.3": on803, "6.5": on65, "5.5": on55} {
		_, s, err := replay(t, login, nil)
		if err != nil || s.User == "" || s.UUID == "" {
			t.Errorf("%s: %+v %v", name, s, err)
		}
	}
	_, _, err := replay(t, map[string][]string{"RetrieveServiceContent": on803["RetrieveServiceContent"], "Login": {"pyvmomi/faults/InvalidLogin.xml"}}, nil)
	if err == nil || vctest.ReasonOf(t, err) != vcfault.ReasonInvalidLogin {
		t.Errorf("a refused password: %v", err)
	}
}

// The read has 121 objects. vCenter puts 100 of them into the first page, although the client set no limit.
func TestARecordedReadHasTwoPages(t *testing.T) {
	_, s, err := replay(t, on55, map[string][]string{"RetrievePropertiesEx": {"manageiq/vcenter-5.5-read/2-RetrievePropertiesEx-page1-of-2.xml"},
		"ContinueRetrievePropertiesEx": {"manageiq/vcenter-5.5-read/3-ContinueRetrievePropertiesEx-page2-of-2.xml"}})
	must.Succeed(t, err)
	objects, err := Retrieve(t.Context(), s)
	seen := map[types.ManagedObjectReference]bool{}
	for _, o := range objects {
		seen[o.Obj] = true
	}
	if err != nil || len(objects) != 121 || len(seen) != 121 {
		t.Errorf("got %d objects, %d of them different, and the error %v; want 121 different ones", len(objects), len(seen), err)
	}
}

func TestUnsetPropertiesAreNotInARecordedAnswer(t *testing.T) {
	_, s, err := replay(t, on55, map[string][]string{"RetrievePropertiesEx": {"manageiq/vcenter-5.5-read/4-RetrievePropertiesEx-four-vms.xml"}})
	must.Succeed(t, err)
	objects, err := ReadObjects(t.Context(), s)
	if err != nil || len(objects) != 4 {
		t.Fatalf("%d objects, %v; want no error and 4", len(objects), err)
	}
	for _, o := range objects {
		var version string
		var devices []types.BaseVirtualDevice
		notes := "unset"
		o.Into(Properties{To("summary.config.annotation", &notes), To("config.version", &version), Devices(&devices)})
		if notes != "unset" || version != "vmx-07" || len(devices) != 12 || o.Withheld {
			t.Errorf("%s: %+v", o.Ref, o)
		}
	}
}

// In SPBM's answers, types have the prefix pbm: or vim25:, and elements of vim25's types have a prefix, too.
func TestWhatARecordedSPBMSays(t *testing.T) {
	dir := "pyvmomi/vcenter-6.5-pbm/"
	c, s, err := replay(t, on65, map[string][]string{"PbmRetrieveServiceContent": {dir + "2-PbmRetrieveServiceContent.xml"},
		"PbmQueryProfile": {dir + "3-PbmQueryProfile.xml", "manageiq/pbm/PbmQueryProfile-none.xml"}, "PbmRetrieveContent": {dir + "4-PbmRetrieveContent.xml", "manageiq/faults/pbm-InvalidRequest-vim25-prefix.xml"},
		"PbmCheckCompatibility": {dir + "5-PbmCheckCompatibility.xml"}})
	must.Succeed(t, err)
	p, err := c.PBM(t.Context(), s)
	must.Succeed(t, err)
	profiles, err := pbmmethods.PbmQueryProfile(t.Context(), p, &pbmtypes.PbmQueryProfile{})
	if err != nil || len(profiles.Returnval) != 4 {
		t.Errorf("the profiles are %+v, the error %v, want 4", profiles, err)
	}
	none, err := pbmmethods.PbmQueryProfile(t.Context(), p, &pbmtypes.PbmQueryProfile{})
	if err != nil || len(none.Returnval) != 0 {
		t.Errorf("the profiles are %+v, the error %v, want none", none, err)
	}
	content, err := pbmmethods.PbmRetrieveContent(t.Context(), p, &pbmtypes.PbmRetrieveContent{})
	if err != nil || len(content.Returnval) == 0 {
		t.Errorf("the content is %+v, the error %v, want a profile", content, err)
	} else if _, is := content.Returnval[0].(*pbmtypes.PbmCapabilityProfile); !is {
		t.Errorf("%T", content.Returnval[0])
	}
	fits, err := pbmmethods.PbmCheckCompatibility(t.Context(), p, &pbmtypes.PbmCheckCompatibility{})
	if err != nil || len(fits.Returnval) != 7 {
		t.Fatalf("the datastores are %+v, the error %v, want 7", fits, err)
	}
	for _, f := range fits.Returnval {
		if len(f.Error) != 1 || f.Error[0].LocalizedMessage == "" {
			t.Errorf("the result is %+v, want one error with a message", f)
			continue
		}
		if _, is := f.Error[0].Fault.(*pbmtypes.PbmPropertyMismatchFault); !is {
			t.Errorf("%T", f.Error[0].Fault)
		}
	}
	_, err = pbmmethods.PbmRetrieveContent(t.Context(), p, &pbmtypes.PbmRetrieveContent{})
	if err == nil || !vcfault.Has[types.BaseInvalidRequest](err) && !vcfault.Has[*types.InvalidRequest](err) {
		t.Errorf("%T %v", err, err)
	}
}
