package stamp

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

var goodStamp = Stamp{
	Cluster: "prod", Namespace: "shop", Name: "web", UID: "uid-1", Generation: 3, Ordinal: 2,
	Revision: "5f3c", RevisionAlgorithm: 1, InstanceUUID: "50aa", VCenter: "dbed", Marked: true,
}

func TestAStampIsReadAsItWasWritten(t *testing.T) {
	const golden = `{"cluster":"prod","generation":3,"instanceUuid":"50aa","marked":true,"name":"web","namespace":"shop","ordinal":2,"revision":"5f3c","revisionAlgorithm":1,"uid":"uid-1","v":1,"vcenter":"dbed"}`
	if text := goodStamp.Encode(); text != golden {
		t.Errorf("the format has changed, and existing VMs have stamps in the old one\n got %s\nwant %s", text, golden)
	}
	if s, err := Decode(golden); err != nil || s != goodStamp {
		t.Errorf("got the stamp %+v and the error %v; want %+v", s, err, goodStamp)
	}
}

// fullStamp has optional keys, too: texts, times, the last shutdown, and what the VM was before its adoption.
func fullStamp() Stamp {
	s := goodStamp
	s.Why, s.Fingerprint, s.Template = plan.MarkReasonHealing, "0a1b2c3d4e", "ubuntu-24.04"
	s.Created = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s.Quarantined, s.Restarted = s.Created.Add(time.Hour), s.Created.Add(time.Minute)
	s.Shutdown = plan.Moment{At: s.Created.Add(time.Second), Boot: time.Date(2026, 1, 2, 3, 0, 0, 123456789, time.UTC)}
	s.Former = plan.Former{Entry: "/DC0/vm/legacy/a", Name: "a", Folder: "group-v7"}
	return s
}

func TestOptionalKeysAreWrittenOnlyIfTheyAreSet(t *testing.T) {
	const golden = `{"adopted":{"entry":"/DC0/vm/legacy/a","name":"a","folder":"group-v7"},"cluster":"prod","created":"2026-01-02T03:04:05Z",` +
		`"fingerprint":"0a1b2c3d4e","generation":3,"instanceUuid":"50aa","marked":true,"name":"web","namespace":"shop","ordinal":2,` +
		`"quarantined":"2026-01-02T04:04:05Z","restarted":"2026-01-02T03:05:05Z","revision":"5f3c","revisionAlgorithm":1,` +
		`"shutdown":{"at":"2026-01-02T03:04:06Z","boot":"2026-01-02T03:00:00.123456789Z"},"template":"ubuntu-24.04","uid":"uid-1","v":1,"vcenter":"dbed","why":"Healing"}`
	if text := fullStamp().Encode(); text != golden {
		t.Errorf("the format has changed, and existing VMs have stamps in the old one\n got %s\nwant %s", text, golden)
	}
	if s, err := Decode(golden); err != nil || s != fullStamp() {
		t.Errorf("got the stamp %+v and the error %v; want %+v", s, err, fullStamp())
	}
}

func TestTheTimesOfAStampAreComparable(t *testing.T) {
	now := time.Now().In(time.FixedZone("", 3600)) // with a monotonic clock reading, a zone and a fraction of a second
	s := goodStamp
	s.Created, s.Shutdown.At = Time(now), Time(now)
	s.Shutdown.Boot = now.UTC().Round(0)
	if again, err := Decode(s.Encode()); err != nil || again != s {
		t.Errorf("the stamp %+v was read again as %+v, with the error %v; want no change", s, again, err)
	}
	text := strings.Replace(goodStamp.Encode(), `{`, `{"created":"2026-01-02T05:04:05.7+02:00",`, 1)
	if s, err := Decode(text); err != nil || s.Created != fullStamp().Created {
		t.Errorf("got the stamp %+v and the error %v; want the creation at %s", s, err, fullStamp().Created)
	}
}

func TestAnOlderServerKeepsWhatANewerOneWrote(t *testing.T) {
	text := strings.Replace(goodStamp.Encode(), `{`, `{"drained":{"at":"2031-01-01","x":[1]},"zone":"b",`, 1)
	s, err := Decode(text)
	must.Succeed(t, err)
	s.Marked = false
	var keys map[string]any
	must.Succeed(t, json.Unmarshal([]byte(s.Encode()), &keys))
	if keys["zone"] != "b" || keys["drained"].(map[string]any)["at"] != "2031-01-01" || keys["marked"] != false {
		t.Errorf("got the keys %v; want drained and zone as a newer server wrote them, and marked false", keys)
	}
}

func TestAStampOfAnotherVersionIsDistinguishedFromAnInvalidOne(t *testing.T) {
	for text, want := range map[string]error{
		strings.Replace(goodStamp.Encode(), `"v":1`, `"v":2`, 1): ErrVersion,
		`{"v":7}`:                ErrVersion,
		`{"v":0}`:                ErrInvalid,
		`{"v":"1"}`:              ErrInvalid,
		`{}`:                     ErrInvalid,
		``:                       ErrInvalid,
		`null`:                   ErrInvalid,
		`[]`:                     ErrInvalid,
		`{"v":1}`:                ErrInvalid,
		goodStamp.Encode() + "x": ErrInvalid,
		strings.Replace(goodStamp.Encode(), `"ordinal":2`, `"ordinal":-1`, 1):                    ErrInvalid,
		strings.Replace(goodStamp.Encode(), `{`, `{"created":"yesterday",`, 1):                   ErrInvalid,
		strings.Replace(goodStamp.Encode(), `{`, `{"shutdown":{"at":7},`, 1):                     ErrInvalid,
		strings.Replace(goodStamp.Encode(), `{`, `{"created":"9999-12-31T23:59:59-01:00",`, 1):   ErrInvalid,
		strings.Replace(goodStamp.Encode(), `"ordinal":2`, `"ordinal":9e9`, 1):                   ErrInvalid,
		strings.Replace(goodStamp.Encode(), `"uid":"uid-1"`, `"UID":"uid-1"`, 1):                 ErrInvalid,
		strings.Replace(goodStamp.Encode(), `"instanceUuid":"50aa"`, `"x":1`, 1):                 ErrInvalid,
		strings.Replace(goodStamp.Encode(), `{`, `{"x":"`+strings.Repeat("x", maxBytes)+`",`, 1): ErrInvalid,
	} {
		if _, err := Decode(text); !errors.Is(err, want) {
			t.Errorf("%.80s: got %v, want %v", text, err, want)
		}
	}
}

func TestACloneOfAMemberIsUnmanaged(t *testing.T) {
	for _, tc := range []struct {
		uid, instance string
		owned         bool
	}{
		{"uid-1", "50aa", true},
		{"uid-1", "50bb", false},
		{"uid-1", "", false},
		{"uid-2", "50aa", false},
		{"", "50aa", false},
	} {
		s := goodStamp
		if s.Owned(types.UID(tc.uid), tc.instance) != tc.owned {
			t.Errorf("%+v: owned is %t, want %t", tc, !tc.owned, tc.owned)
		}
	}
	if (Stamp{}).Owned("", "") {
		t.Error("a VM without a stamp counts as a member")
	}
}

func TestOnlyTheVMThatTheStampNamesIsOurs(t *testing.T) {
	text := Stamp{UID: "uid-web", InstanceUUID: "one", Ordinal: 1, Generation: 1}.Encode()
	for _, tc := range []struct {
		text, instance string
		readable       bool
		want           Owner
	}{
		{text, "one", true, Ours},
		{text, "another", true, Unmanaged}, // a copy of the VM
		{text, "", true, Unmanaged},
		{text, "one", false, Unreadable},
		{"", "one", true, Unmanaged},
		{"garbled", "one", true, Unmanaged},
	} {
		if s, owner := Read(tc.text, tc.instance, tc.readable); owner != tc.want || owner != Ours && s != (Stamp{}) {
			t.Errorf("%q in the VM %q (readable: %t): got the owner %d and the stamp %+v; want the owner %d, and a stamp only if the VM is ours", tc.text, tc.instance, tc.readable, owner, s, tc.want)
		}
	}
}

// stampSeeds are valid stamps, and texts that are invalid for one reason each.
func stampSeeds() []string {
	return []string{goodStamp.Encode(), fullStamp().Encode(), `{"v":2}`, `{"v":1,"uid":"uid-web","instanceUuid":"b","ordinal":7}`,
		`{"v":2,"uid":"uid-web","instanceUuid":"id","ordinal":0}`, `{"v":1,"uid":"uid-web","instanceUuid":"id","ordinal":-1}`,
		`{"v":1,"uid":"uid-web","instanceUuid":"id","shutdown":{"at":"x"}}`, `{"v":1.5}`, `{"v":1,"v":2,"uid":"uid-web","instanceUuid":"id"}`, "", "null", "\x00"}
}

func FuzzStamp(f *testing.F) {
	f.Add(goodStamp.Encode())
	f.Add(fullStamp().Encode())
	f.Add(`{"v":1,"uid":"a","instanceUuid":"b","created":null,"shutdown":{"boot":"0001-01-01T00:00:00Z"},"adopted":{"x":1}}`)
	f.Add(`{"v":2}`)
	for _, text := range stampSeeds() {
		f.Add(text)
	}
	f.Add(`{"v":1,"uid":"a","instanceUuid":"b","extra":{"k":[1,2,"<"]},"":null}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Decode(text)
		if err != nil {
			if s != (Stamp{}) || !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrVersion) {
				t.Fatalf("got the error %v and the stamp %+v; want ErrInvalid or ErrVersion, and the zero stamp", err, s)
			}
			return
		}
		once := s.Encode()
		if len(once) > maxBytes {
			return
		}
		again, err := Decode(once)
		if err != nil {
			t.Fatalf("Decode refused %q, which Encode returned: %v", once, err)
		}
		if twice := again.Encode(); twice != once {
			t.Fatalf("%q was read and written as %q; want the same bytes", once, twice)
		}
		bare, same := s, again
		bare.extra, same.extra = "", ""
		if bare != same {
			t.Fatalf("the stamp %+v was written and read as %+v; want no change but in unknown keys", s, again)
		}
	})
}
