package stamp

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Key is the extraConfig key of the stamp. It does not begin with guestinfo., because guests can write such keys. It has
// dots and no slash, like vCenter's own keys: nothing documents that a name in a .vmx file may have a slash.
const Key = plan.StampKey

// format is the version that this server writes and reads.
const format = 1

// maxBytes bounds the length of a stamp, in bytes.
const maxBytes = 16 << 10

var (
	// ErrVersion means that another version of the server wrote the stamp. Callers count the VM and never change it.
	ErrVersion = errors.New("the stamp is of an unknown version")
	// ErrInvalid means that the text is not a stamp.
	ErrInvalid = errors.New("the stamp is invalid")
)

// Stamp is the record that the task that creates a VM writes into it. UID and Ordinal
// identify the member; the other fields are for the plan, for people, and for restored backups. A Stamp is comparable, so its times
// are as Time returns them.
//
//	{"v":1, "cluster":"prod", "namespace":"shop", "name":"web", "uid":"…", "generation":3, "ordinal":0,
//	 "revision":"5f3c", "revisionAlgorithm":1, "instanceUuid":"…", "vcenter":"…", "marked":true}
//
// and, where they are set:
//
//	{"created":"2026-01-02T03:04:05Z", "fingerprint":"0a1b2c3d4e", "template":"ubuntu-24.04", "why":"Healing", "quarantined":"…", "restarted":"…",
//	 "shutdown":{"at":"…", "boot":"…"}, "adopted":{"entry":"/DC0/vm/legacy/a", "name":"a", "folder":"group-v7"},
//	 "markedAt":"…", "home":"DC1:teams/shop", "addresses":"10.0.0.7", "prepared":"{…}", "disks":"2000=6000C29e-… 2001=6000C296-…",
//	 "given":"[{\"name\":\"data\",\"at\":\"1000:1\",\"uuid\":\"6000C29e-…\",\"sizeGiB\":20,\"shape\":\"…\"}]", "standby":true, "allocation":"{\"cpuLimitMHz\":800}", "clonedFor":"1c0ffee123",
//	 "tagged":{"moRef":"vm-42", "asked":"c0ffee12", "at":"…"}, "presentInstanceUuid":"…", "outOfRule":true}
type Stamp struct {
	Cluster         string
	Namespace, Name string
	UID             types.UID
	Generation      int64
	Ordinal         int32
	// Revision is the hash of the spec from which the VM was cloned, and RevisionAlgorithm the version of the hash's algorithm.
	Revision          string
	RevisionAlgorithm int
	// InstanceUUID is the VM's instanceUuid, which the clone's spec sets, too. A VM with another instanceUuid is a copy. If vCenter changed it,
	// InstanceUUID remains what identifies the member, and Present is what vCenter has now; otherwise Present is empty.
	InstanceUUID, Present string
	// VCenter is the instanceUuid of the vCenter in which the VM was created.
	VCenter string
	// Marked reports whether the server is about to remove or power-cycle the VM, and Why is the reason.
	Marked bool
	Why    plan.MarkReason
	// Created is when the VM was cloned or adopted, by the server's clock.
	Created time.Time
	// Fingerprint is that of the template when the VM was cloned, and Template the template's name in spec.template.
	Fingerprint, Template string
	// Quarantined is when the VM was put into quarantine; zero if it is in none.
	Quarantined time.Time
	// Shutdown is the last time that the guest was asked to shut down. Its Boot is the VM's bootTime in full precision, so that it can be
	// compared with the bootTime that vCenter reports later.
	Shutdown plan.Moment
	// Restarted is when the VM was last reset because it stayed unready.
	Restarted time.Time
	// Former is what the VM was before it was adopted.
	Former plan.Former
	// MarkedAt is when the VM was marked.
	MarkedAt time.Time
	// Home, Addresses and Prepared are as in plan.VM.
	Home, Addresses, Prepared string
	// Disks is the record of the disks that the clone made, from disks.Keys and disks.Identify, or that the VM had when it was adopted, from
	// disks.Adopted; empty for a VM that an older server cloned or adopted.
	Disks string
	// Standby is as in plan.VM.
	Standby bool

	// Given is the record of the VM's disks from the spec (plan.DiskText), and Allocation that of its reservations, limits and shares
	// (plan.AllocationOf).
	Given, Allocation string
	// OutOfRule keeps the VM out of the group's anti-affinity rule while the VM is off and the rule is optional: DRS found no host for it otherwise.
	OutOfRule bool
	// ClonedFor and Tagged are as in plan.VM.
	ClonedFor string
	Tagged    plan.Tagged

	// extra has, as a JSON object, the keys that this server does not know; Encode writes them again, so that
	// an older server does not lose what a newer one wrote.
	extra string
}

// Time returns a time as a stamp stores it: in UTC and whole seconds.
func Time(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// fields returns the keys that every stamp has, and pointers to their values.
func (s *Stamp) fields() map[string]any {
	return map[string]any{
		"cluster": &s.Cluster, "namespace": &s.Namespace, "name": &s.Name, "uid": &s.UID,
		"generation": &s.Generation, "ordinal": &s.Ordinal,
		"revision": &s.Revision, "revisionAlgorithm": &s.RevisionAlgorithm,
		"instanceUuid": &s.InstanceUUID, "vcenter": &s.VCenter, "marked": &s.Marked,
	}
}

// optional returns the keys that are written only if they are set.
func (s *Stamp) optional() map[string]any {
	return map[string]any{
		"created": (*stampedTime)(&s.Created), "fingerprint": &s.Fingerprint, "template": &s.Template, "why": &s.Why,
		"quarantined": (*stampedTime)(&s.Quarantined), "restarted": (*stampedTime)(&s.Restarted),
		"markedAt": (*stampedTime)(&s.MarkedAt), "home": &s.Home, "addresses": &s.Addresses, "prepared": &s.Prepared, "disks": &s.Disks, "given": &s.Given,
		"allocation": &s.Allocation, "clonedFor": &s.ClonedFor, "tagged": (*stampedTagged)(&s.Tagged),
		"standby": &s.Standby, "presentInstanceUuid": &s.Present, "outOfRule": &s.OutOfRule,
		"shutdown": (*stampedMoment)(&s.Shutdown), "adopted": (*stampedFormer)(&s.Former),
	}
}

// Encode returns the stamp's text. Equal stamps give equal bytes.
func (s Stamp) Encode() string {
	keys := map[string]any{}
	if s.extra != "" {
		var extra map[string]json.RawMessage
		if json.Unmarshal([]byte(s.extra), &extra) == nil {
			for key, value := range extra {
				keys[key] = value
			}
		}
	}
	maps.Copy(keys, s.fields())
	for key, field := range s.optional() {
		if !reflect.ValueOf(field).Elem().IsZero() {
			keys[key] = field
		}
	}
	keys["v"] = format
	text, err := json.Marshal(keys)
	if err != nil {
		panic("a stamp cannot be encoded: " + err.Error()) // strings, numbers and JSON that was just decoded
	}
	return string(text)
}

// Decode parses a stamp. The error is ErrVersion or ErrInvalid; in both cases callers must not change the VM.
func Decode(text string) (Stamp, error) {
	if len(text) > maxBytes {
		return Stamp{}, fmt.Errorf("%w: it has %d bytes", ErrInvalid, len(text))
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &keys); err != nil {
		return Stamp{}, fmt.Errorf("%w: %v", ErrInvalid, err)
	}
	var version int
	if err := json.Unmarshal(keys["v"], &version); err != nil || version < 1 {
		return Stamp{}, fmt.Errorf("%w: it has no version", ErrInvalid)
	}
	if version != format {
		return Stamp{}, fmt.Errorf("%w: %d", ErrVersion, version)
	}
	delete(keys, "v")
	var s Stamp
	known := s.fields()
	maps.Copy(known, s.optional())
	for key, field := range known {
		if value, ok := keys[key]; ok {
			if err := json.Unmarshal(value, field); err != nil {
				return Stamp{}, fmt.Errorf("%w: %s: %v", ErrInvalid, key, err)
			}
			delete(keys, key)
		}
	}
	if s.UID == "" || s.InstanceUUID == "" || s.Ordinal < 0 {
		return Stamp{}, fmt.Errorf("%w: uid, instanceUuid or ordinal is missing", ErrInvalid)
	}
	if len(keys) > 0 {
		extra, err := json.Marshal(keys)
		if err != nil {
			return Stamp{}, fmt.Errorf("%w: %v", ErrInvalid, err)
		}
		s.extra = string(extra)
	}
	return s, nil
}

// Unprepared reports whether the VM must still be prepared before it is powered on for the first time.
func (s *Stamp) Unprepared() bool { return strings.HasPrefix(s.Prepared, plan.Unprepared) }

// Onto returns vm with the fields of the stamp.
func (s *Stamp) Onto(vm plan.VM) plan.VM {
	vm.Ordinal, vm.Revision, vm.Generation, vm.VCenter = s.Ordinal, s.Revision, s.Generation, s.VCenter
	vm.Marked, vm.MarkReason, vm.Quarantined = s.Marked, s.Why, s.Quarantined
	vm.Created, vm.Fingerprint, vm.Template, vm.Former = s.Created, s.Fingerprint, s.Template, s.Former
	vm.Shutdown, vm.Restarted, vm.MarkedAt = s.Shutdown, s.Restarted, s.MarkedAt
	vm.Home, vm.Addresses, vm.Prepared, vm.Disks, vm.Standby = s.Home, s.Addresses, s.Prepared, s.Given, s.Standby
	vm.Allocation, vm.ClonedFor, vm.Tagged = s.Allocation, s.ClonedFor, s.Tagged
	vm.InstanceUUID = s.InstanceUUID
	return vm
}

// Owned reports whether a VM with this stamp and that instanceUuid is a member of the group with
// that UID. A VM without an instanceUuid, or with another one than its stamp, is a copy, and so unmanaged.
func (s Stamp) Owned(uid types.UID, instanceUUID string) bool {
	return uid != "" && s.UID == uid && instanceUUID != "" && (s.InstanceUUID == instanceUUID || s.Present == instanceUUID)
}

// Now returns the stamp with the instanceUuid that vCenter has for the VM now.
func (s Stamp) Now(instanceUUID string) Stamp {
	if s.Present = instanceUUID; instanceUUID == s.InstanceUUID {
		s.Present = ""
	}
	return s
}
