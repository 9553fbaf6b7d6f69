// Package guest makes the data that a member's guest gets: cloud-init's guestinfo, in extraConfig, or a customization
// specification of vCenter. It promises that user data is never printed. It has no lock.
package guest
