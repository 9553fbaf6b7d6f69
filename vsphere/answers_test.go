package vsphere

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

func envelope(body string) []byte {
	return []byte(`<Envelope xmlns="http://schemas.xmlsoap.org/soap/envelope/"><Body>` + body + `</Body></Envelope>`)
}

func TestALoginThatIsAnsweredBySomethingElseIsAFault(t *testing.T) {
	for _, body := range []string{"", "<LoginResponse/>", "<LogoutResponse/>", "<html/>", `<LoginResponse><returnval xsi:type="xsd:int">7</returnval></LoginResponse>`} {
		faults := live(t, func(method string, _ int, s said) said {
			if method == "Login" {
				s.body = envelope(body)
			}
			return s
		})
		f := faults[0]
		if f == nil || f.Reason != vcfault.ReasonNotVCenterAPI || f.Person || !mentions(f.Message, "Login", "VC_HOST", "proxy") {
			t.Errorf("%s: %v", body, f)
		}
	}
}

// live fails if any other address than vCenter's own is called.
func TestARedirectOfVCenterIsRefusedWhereverItLeads(t *testing.T) {
	for _, method := range []string{"RetrieveServiceContent", "Login", "PbmRetrieveServiceContent", "REST POST session", "WaitForUpdatesEx"} {
		for i, to := range []string{"http://vcenter.test/sdk", "https://elsewhere.test/sdk", "/other"} {
			status := []int{http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect}[i]
			faults := live(t, func(called string, _ int, s said) said {
				if called == method {
					s.status, s.header = status, http.Header{"Location": {to}}
				}
				return s
			})
			told := false
			for _, f := range faults {
				told = told || f.Reason == vcfault.ReasonNotVCenterAPI && strings.Contains(f.Message, "redirects")
			}
			if !told {
				t.Errorf("%s to %s: %v", method, to, faults)
			}
		}
	}
}

func TestAnAnswerThatLacksWhatTheAPIRequiresIsTold(t *testing.T) {
	task := types.ManagedObjectReference{Type: "Task", Value: "task-1"}
	for lack, res := range map[string]soap.HasFault{
		"CloneVM_TaskResponse":     &methods.CloneVM_TaskBody{},
		"Returnval":                &methods.CloneVM_TaskBody{Res: &types.CloneVM_TaskResponse{}},
		"SetFieldResponse":         &methods.SetFieldBody{},
		"CurrentTimeResponse":      &methods.CurrentTimeBody{},
		"WaitForUpdatesExResponse": &methods.WaitForUpdatesExBody{},
	} {
		if got := lacking(res); got != lack {
			t.Errorf("%T lacks %q, not %q", res, got, lack)
		}
	}
	for _, res := range []soap.HasFault{
		&methods.CloneVM_TaskBody{Res: &types.CloneVM_TaskResponse{Returnval: task}},
		&methods.WaitForUpdatesExBody{Res: &types.WaitForUpdatesExResponse{}}, // nothing is new
		&methods.FindChildBody{Res: &types.FindChildResponse{}},               // there is no child
		&methods.SetFieldBody{Res: &types.SetFieldResponse{}},                 // gives nothing
		&methods.RetrievePropertiesExBody{Res: &types.RetrievePropertiesExResponse{}},
	} {
		if got := lacking(res); got != "" {
			t.Errorf("%T lacks %q", res, got)
		}
	}
}

func TestAFolderThatIsInItselfEndsTheSearch(t *testing.T) {
	calls := 0
	s := &search{next: nothing{&calls}}
	for range searchMost {
		if err := s.RoundTrip(t.Context(), &methods.FindChildBody{}, &methods.FindChildBody{}); err != nil {
			t.Fatal(err)
		}
	}
	err := s.RoundTrip(t.Context(), &methods.FindChildBody{}, &methods.FindChildBody{})
	if reasonOf(t, err) != vcfault.ReasonNotVCenterAPI || calls != int(searchMost) {
		t.Errorf("after %d calls: %v", calls, err)
	}
}

type nothing struct{ calls *int }

func (n nothing) RoundTrip(context.Context, soap.HasFault, soap.HasFault) error {
	*n.calls++
	return nil
}

func TestPlacesThatAreInEachOtherEndEverySearch(t *testing.T) {
	p := newPlaces(2)
	p.put(Place{MoRef: "a", Kind: "Folder", Name: "a", Parent: "b"})
	p.put(Place{MoRef: "b", Kind: "Folder", Name: "b", Parent: "a"})
	if p.datacenter("a") != "" || p.names("a") != nil || len(p.between("c", "a")) > deepest || len(p.path("a", "x")) > 3*deepest {
		t.Errorf("%q, %v, %v, %q", p.datacenter("a"), p.names("a"), p.between("c", "a"), p.path("a", "x"))
	}
}
