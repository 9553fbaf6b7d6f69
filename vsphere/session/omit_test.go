package session

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
	"github.com/vmware/govmomi/vim25/xml"

	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/test/thin"
)

// values are what WithoutValues omits.
var values = omitted(WithoutValues(context.Background()))

// without returns an answer without some elements. It fails if the result depends on how the answer is cut into parts.
func without(t *testing.T, all []Omission, text string) string {
	t.Helper()
	whole := ""
	for _, cut := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.HalfReader, iotest.DataErrReader} {
		left, err := io.ReadAll(newOmitter(io.NopCloser(cut(strings.NewReader(text))), all))
		must.Succeed(t, err)
		if whole != "" && string(left) != whole {
			t.Fatalf("in parts, %q is left, and as a whole %q, want the same", left, whole)
		}
		whole = string(left)
	}
	return whole
}

func TestTheValuesOfAnAnswerAreDroppedAndNothingElse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`<a><name>n</name><val xsi:type="T"><ip>1</ip><ip>2</ip></val><op>o</op></a>`: `<a><name>n</name><op>o</op></a>`,
		`<a><val>1</val><val/><val xsi:nil="true" /><b/></a>`:                         `<a><b/></a>`,
		`<a><val><val>1</val><val/>2</val >3</a>`:                                     `<a>3</a>`,
		`<a><value>1</value><valu/><va>2</va><vals a="b">3</vals></a>`:                `<a><value>1</value><valu/><va>2</va><vals a="b">3</vals></a>`,
		"<?xml version=\"1.0\"?>\n<a b='/'>text</a>\n":                                "<?xml version=\"1.0\"?>\n<a b='/'>text</a>\n",
		`</val><a>1</a><val>2`:                                                        `<a>1</a>`,
		``:                                                                            ``,
	} {
		if got := without(t, values, text); got != want {
			t.Errorf("%q: %q, not %q", text, got, want)
		}
	}
}

func TestAnElementIsKeptByItsTypeAndName(t *testing.T) {
	t.Parallel()
	all := []Omission{{Element: "rule", Unless: func(kind, name string) bool { return name == "ours" || kind == "Host" }}, {Element: "das"}}
	long := strings.Repeat("x", heldMost)
	for text, want := range map[string]string{
		`<a><rule xsi:type="A"><key>1</key><name>theirs</name><vm>1</vm><vm>2</vm></rule><b/></a>`: `<a><b/></a>`,
		`<a><rule xsi:type="A"><key>1</key><name>ours</name><vm>1</vm></rule><b/></a>`:             `<a><rule xsi:type="A"><key>1</key><name>ours</name><vm>1</vm></rule><b/></a>`,
		`<a><rule XMLSchema-instance:type="Host"><name>theirs</name></rule></a>`:                   `<a><rule XMLSchema-instance:type="Host"><name>theirs</name></rule></a>`,
		`<a><rule xsi:type="v:Host"><name>theirs</name><vm/></rule></a>`:                           `<a><rule xsi:type="v:Host"><name>theirs</name><vm/></rule></a>`,
		`<a><rule><of><name>ours</name></of><name> theirs </name></rule></a>`:                      `<a></a>`, // another element's name
		`<a><rule><name>theirs</name><name>ours</name></rule><rule/><rule>1</rule></a>`:            `<a><rule/><rule>1</rule></a>`,
		`<a><rule><name>theirs</name><rule><name>ours</name></rule>2</rule>3</a>`:                  `<a>3</a>`,
		`<a><rule><name/><name>ours</name>1</rule><das><rule><name>ours</name></rule></das></a>`:   `<a><rule><name/><name>ours</name>1</rule></a>`,
		`<a><rule>` + long + `<name>theirs</name></rule></a>`:                                      `<a><rule>` + long + `<name>theirs</name></rule></a>`,
	} {
		if got := without(t, all, text); got != want {
			t.Errorf("%q: %q, not %q", text, got, want)
		}
	}
	if left, err := io.ReadAll(newOmitter(io.NopCloser(strings.NewReader("<a "+strings.Repeat("b", 1<<20))), all)); err == nil {
		t.Errorf("a tag without an end leaves %d bytes, and no error", len(left))
	}
}

// updates is an answer of the stream.
func updates(addresses int) *types.UpdateSet {
	nic := types.GuestNicInfo{IpAddress: make([]string, addresses)}
	for i := range nic.IpAddress {
		nic.IpAddress[i] = "10.0.0.1"
	}
	ref := types.ManagedObjectReference{Type: "VirtualMachine", Value: "vm-1"}
	return &types.UpdateSet{Version: "2", Truncated: types.NewBool(true), FilterSet: []types.PropertyFilterUpdate{{Filter: ref, ObjectSet: []types.ObjectUpdate{
		{Kind: types.ObjectUpdateKindEnter, Obj: ref, ChangeSet: []types.PropertyChange{
			{Name: "name", Op: types.PropertyChangeOpAssign, Val: "a<b&val"},
			{Name: "guest.net", Op: types.PropertyChangeOpAssign, Val: types.ArrayOfGuestNicInfo{GuestNicInfo: []types.GuestNicInfo{nic}}},
			{Name: "runtime.host", Op: types.PropertyChangeOpAssign, Val: ref},
			{Name: "runtime.question", Op: types.PropertyChangeOpRemove}}},
		{Kind: types.ObjectUpdateKindLeave, Obj: types.ManagedObjectReference{Type: "VirtualMachine", Value: "vm-2"}},
	}}}}
}

func TestAnAnswerOfTheStreamIsTheSameWithoutItsValues(t *testing.T) {
	t.Parallel()
	set := updates(3)
	made, err := xml.Marshal(soap.Envelope{Body: &methods.WaitForUpdatesExBody{Res: &types.WaitForUpdatesExResponse{Returnval: set}}})
	must.Succeed(t, err)
	left := without(t, values, string(made))
	var body methods.WaitForUpdatesExBody
	if err := xml.NewDecoder(strings.NewReader(left)).Decode(&soap.Envelope{Body: &body}); err != nil {
		t.Fatalf("%v: %s", err, left)
	}
	for i := range set.FilterSet[0].ObjectSet[0].ChangeSet {
		set.FilterSet[0].ObjectSet[0].ChangeSet[i].Val = nil
	}
	want, _ := xml.Marshal(set)
	got, _ := xml.Marshal(body.Res.Returnval)
	if !bytes.Equal(want, got) {
		t.Errorf("%s\nnot %s", got, want)
	}
}

// The memory that an answer needs must not depend on the number of the guests' addresses.
func TestValuesThatAreDroppedNeedNoMemory(t *testing.T) {
	thin.NotShort(t)
	allocated := func(addresses int) int64 {
		made, err := xml.Marshal(updates(addresses))
		must.Succeed(t, err)
		return testing.Benchmark(func(b *testing.B) {
			for b.Loop() {
				_, _ = io.Copy(io.Discard, newOmitter(io.NopCloser(bytes.NewReader(made)), values))
			}
		}).AllocedBytesPerOp()
	}
	if few, many := allocated(1), allocated(100_000); many > 2*few {
		t.Errorf("%d bytes, and %d with a hundred thousand times as many addresses; want at most %d", few, many, 2*few)
	}
}
